"""What an experiment needs on a node: itself, and the folders and files that it names, each by what it holds.

Rules: a parcel's key says what is in it, rights included, so nothing is sent twice to a node, and no two
contents share a name. Where things lie on a node is no part of any digest.
"""

import dataclasses
import hashlib
import os
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec

from labrunner.errors import InputError
from labrunner.executor.cluster.parcels import pack, pack_bytes, pack_file, pack_files
from labrunner.experiment import codec
from labrunner.experiment.folders import digest_file
from labrunner.experiment.resolved import Experiment, Folder, Program, Solution
from labrunner.files.strangers.tree import walk
from labrunner.records.encoding import canonical

T = TypeVar("T")
WHOLE: Final = "whole"
"""What is called so in a parcel that is no file elsewhere."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Parcel:
    """Something to be delivered."""

    key: str
    path: Path | None = None
    """A folder or file; None where the content is here."""
    content: bytes = b""
    files: Mapping[str, Path] | None = None
    """Many files, each by where it is to lie."""

    @property
    def whereabouts(self) -> str:
        """Where it lies among a node's parcels: a file keeps its name, which may tell what it is."""
        return f"{self.key}/{self.path.name}" if self.path is not None and self.path.is_file() else self.key

    def pieces(self) -> Iterator[bytes]:
        """It, in pieces."""
        if self.files is not None:
            return pack_files(self.files)
        if self.path is None:
            return pack_bytes(self.content, WHOLE)
        if self.path.is_dir():
            return pack(self.path, as_it_is=True)
        return pack_file(self.path, self.path.name)


def pack_experiment(experiment: Experiment) -> Parcel:
    """An experiment, as a run's directory keeps it."""
    lines = [canonical.encode_line(codec.to_record(experiment)), *codec.task_lines(experiment)]
    content = b"".join(lines)
    return Parcel(key=f"experiment-{hashlib.sha256(content).hexdigest()}", content=content)


def read_experiment(parcel: Path) -> Experiment:
    """An experiment that was delivered."""
    record, *tasks = (parcel / WHOLE).read_bytes().splitlines(keepends=True)
    return codec.from_record(msgspec.json.decode(record), tasks)


def find_parcels(experiment: Experiment) -> dict[str, Parcel]:
    """Everything that an experiment names, by its path. Raises InputError for what is not there any more."""
    digests = dict(_find_folders(experiment))
    return {path: _make_parcel(Path(path), digest) for path, digest in digests.items()}


def bundle(files: Mapping[str, Path]) -> Parcel:
    """Many files as one parcel. Raises InputError for what is not there any more."""
    state = hashlib.sha256(b"files\0")
    for place, path in sorted(files.items()):
        try:
            mode, content = stat.S_IMODE(path.stat().st_mode), digest_file(path)
        except OSError as error:
            raise InputError(str(path), f"can't be read any more: {error.strerror}") from error
        state.update(os.fsencode(place) + b"\0%o\0" % mode + content.encode() + b"\0")
    return Parcel(key=f"files-{state.hexdigest()}", files=files)


def _make_parcel(path: Path, digest: str) -> Parcel:
    state = hashlib.sha256(digest.encode())
    try:
        for line in _rights(path):
            state.update(line)
    except OSError as error:
        raise InputError(str(path), f"can't be read any more: {error.strerror}") from error
    return Parcel(key=state.hexdigest(), path=path)


def _rights(path: Path) -> Iterator[bytes]:
    if not path.is_dir():
        yield os.fsencode(path.name) + b"%o" % stat.S_IMODE(path.stat().st_mode)
        return
    for found in walk(path, as_it_is=True):
        if not found.is_over:
            yield os.fsencode(found.path) + b"\0%o\0" % found.mode


def _find_folders(part: Any) -> Iterator[tuple[str, str]]:  # noqa: ANN401 - any part of an experiment
    """Paths that an experiment names, each with the digest of what it held. Code of Python tasks is not."""
    if isinstance(part, Folder):
        yield part.path, part.digest
    elif isinstance(part, Solution):
        if part.dir is not None:
            yield part.dir, part.digest or ""
    elif isinstance(part, tuple):
        for each in part:
            yield from _find_folders(each)
    elif dataclasses.is_dataclass(part) and not isinstance(part, Program):
        for field in dataclasses.fields(part):
            yield from _find_folders(getattr(part, field.name))


def relocate(experiment: Experiment, parcels: Mapping[str, Path]) -> Experiment:
    """The same experiment, with what it names where it was delivered."""
    return _Relocation(parcels).move(experiment)


class _Relocation:
    """One pass; parts that many tasks share stay shared."""

    def __init__(self, parcels: Mapping[str, Path]) -> None:
        self._parcels = parcels
        self._moved: dict[int, tuple[Any, Any]] = {}

    def move(self, part: T) -> T:
        known = self._moved.get(id(part))
        if known is not None:
            same: T = known[1]
            return same
        moved: T = self._move(part)
        if dataclasses.is_dataclass(part):
            self._moved[id(part)] = (part, moved)  # kept, so that its number stays its own
        return moved

    def _move(self, part: Any) -> Any:  # noqa: ANN401 - any part of an experiment
        if isinstance(part, Folder):
            return dataclasses.replace(part, path=self._place(part.path))
        if isinstance(part, Solution):
            return part if part.dir is None else dataclasses.replace(part, dir=self._place(part.dir))
        if isinstance(part, tuple):
            moved = tuple(map(self.move, part))
            return moved if any(new is not old for new, old in zip(moved, part, strict=True)) else part
        if not dataclasses.is_dataclass(part) or isinstance(part, Program | type):
            return part
        changes = {}
        for field in dataclasses.fields(part):
            old = getattr(part, field.name)
            if (new := self.move(old)) is not old:
                changes[field.name] = new
        return dataclasses.replace(part, **changes) if changes else part

    def _place(self, path: str) -> str:
        return str(self._parcels[path])
