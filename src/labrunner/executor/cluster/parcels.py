"""Folders on their way to another machine: whatever a sandbox built, in pieces of about a megabyte.

Rules: no link is followed, names are bytes as the disk has them, holes are kept; sockets and devices mean
nothing elsewhere, and are left out. A piece can be read by itself; they are taken in the order in which they
were made. What is unpacked lies below the folder that it is unpacked into, whoever made the pieces.
"""

import hashlib
import os
import stat
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Final

import msgspec

from labrunner.files.descriptors import FILE, FOLDER, NEW_FILE, write_all_at
from labrunner.files.strangers.tree import Found, find_data, walk

PIECE: Final = 1 << 20


class _Descend(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag="d"):
    name: bytes


class _Ascend(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag="u"):
    rights: int


class _File(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag="f"):
    name: bytes
    rights: int
    changed_ns: int
    size: int


class _Data(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag="b"):
    at: int
    data: bytes


class _Link(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag="l"):
    name: bytes
    target: bytes


class _Pipe(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag="p"):
    name: bytes
    rights: int


_Any = _Descend | _Ascend | _File | _Data | _Link | _Pipe
_encoder: Final = msgspec.msgpack.Encoder()
_decoder: Final = msgspec.msgpack.Decoder(list[_Any])


class BadParcel(ValueError):
    """Pieces that no packing has made."""


def digest(piece: bytes) -> bytes:
    """Digest of a piece."""
    return hashlib.sha256(piece).digest()


def pack(folder: Path, leaves_out: Collection[str] = (), *, as_it_is: bool = False) -> Iterator[bytes]:
    """Pieces of what lies in a folder; some of its own names may be left out."""
    here = os.open(folder, FOLDER)
    try:
        yield from _gather(_parts_of(here, folder, leaves_out, as_it_is=as_it_is))
    finally:
        os.close(here)


def pack_file(path: Path, name: str) -> Iterator[bytes]:
    """Pieces of a folder that holds one file, under a name."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        yield from _gather(_file_parts(fd, os.fstat(fd), name))
    finally:
        os.close(fd)


def pack_bytes(data: bytes, name: str) -> Iterator[bytes]:
    """The same of a file that is not on a disk."""
    yield _encoder.encode([_File(os.fsencode(name), 0o600, 0, len(data))])
    for at in range(0, len(data), PIECE):
        yield _encoder.encode([_Data(at, data[at : at + PIECE])])


def pack_files(files: Mapping[str, Path]) -> Iterator[bytes]:
    """Pieces of a folder that holds these files, each at a path of its own."""
    return _gather(_listed_parts(files))


def _listed_parts(files: Mapping[str, Path]) -> Iterator[_Any]:
    here: list[str] = []
    for *folders, name in sorted(place.split("/") for place in files):
        while here != folders[: len(here)]:
            yield _Ascend(0o755)
            here.pop()
        for folder in folders[len(here) :]:
            yield _Descend(os.fsencode(folder))
            here.append(folder)
        fd = os.open(files["/".join([*folders, name])], os.O_RDONLY | os.O_CLOEXEC)
        try:
            yield from _file_parts(fd, os.fstat(fd), name)
        finally:
            os.close(fd)
    yield from (_Ascend(0o755) for _ in here)


def _parts_of(here: int, folder: Path, leaves_out: Collection[str], *, as_it_is: bool) -> Iterator[_Any]:
    for name in sorted(os.listdir(here)):
        if name in leaves_out:
            continue
        facts = os.stat(name, dir_fd=here, follow_symlinks=False)
        if stat.S_ISDIR(facts.st_mode):
            yield _Descend(os.fsencode(name))
            for found in walk(folder / name, as_it_is=as_it_is):
                yield from _tell(found)
            yield _Ascend(stat.S_IMODE(facts.st_mode))
        else:
            yield from _tell(Found(here, name, [], facts))


def _tell(found: Found) -> Iterator[_Any]:
    if found.is_over:
        yield _Ascend(stat.S_IMODE(found.mode))
    elif stat.S_ISDIR(found.mode):
        yield _Descend(os.fsencode(found.name))
    elif stat.S_ISLNK(found.mode):
        target = os.readlink(found.name, dir_fd=found.folder)
        yield _Link(os.fsencode(found.name), os.fsencode(target))
    elif stat.S_ISFIFO(found.mode):
        yield _Pipe(os.fsencode(found.name), stat.S_IMODE(found.mode))
    elif stat.S_ISREG(found.mode):
        fd = found.open(FILE)
        try:
            yield from _file_parts(fd, found.facts, found.name)
        finally:
            os.close(fd)


def _file_parts(fd: int, facts: os.stat_result, name: str) -> Iterator[_Any]:
    yield _File(os.fsencode(name), stat.S_IMODE(facts.st_mode), facts.st_mtime_ns, facts.st_size)
    for start, end in find_data(fd, facts):
        at = start
        while at < end and (chunk := os.pread(fd, min(PIECE, end - at), at)):
            yield _Data(at, chunk)
            at += len(chunk)


def _gather(parts: Iterator[_Any]) -> Iterator[bytes]:
    """Put many small parts into one piece."""
    waiting: list[_Any] = []
    size = 0
    for part in parts:
        waiting.append(part)
        size += 64 + (len(part.data) if isinstance(part, _Data) else 0)
        if size >= PIECE:
            yield _encoder.encode(waiting)
            waiting, size = [], 0
    if waiting:
        yield _encoder.encode(waiting)


class Unpacking:
    """A folder that is being filled from pieces; `close` gives its descriptors back."""

    def __init__(self, folder: Path) -> None:
        """Begin in a folder that is there and that nobody else writes to."""
        self._depth = 0
        self._here = os.open(folder, FOLDER)
        self._file: int | None = None
        self._facts: _File | None = None

    def take(self, piece: bytes) -> None:
        """Take the next piece. Raises BadParcel, OSError."""
        try:
            parts = _decoder.decode(piece)
        except ValueError as error:
            raise BadParcel(str(error)) from error
        for part in parts:
            self._take(part)

    def finish(self) -> None:
        """See that nothing is missing."""
        self._end_file()
        if self._depth:
            raise BadParcel("ended in the middle of a folder")

    def close(self) -> None:
        """Let go of what is open."""
        if self._file is not None:
            os.close(self._file)
            self._file = None
        os.close(self._here)

    def _take(self, part: _Any) -> None:
        if isinstance(part, _Data):
            if self._file is None:
                raise BadParcel("data of no file")
            write_all_at(self._file, part.data, part.at)
            return
        self._end_file()
        match part:
            case _Descend(name=name):
                self._enter(_check(name))
            case _Ascend(rights=rights):
                self._leave(rights)
            case _File(name=name):
                self._file, self._facts = os.open(_check(name), NEW_FILE, 0o600, dir_fd=self._here), part
            case _Link(name=name, target=target):
                os.symlink(target, _check(name), dir_fd=self._here)
            case _Pipe(name=name, rights=rights):
                os.mkfifo(_check(name), rights, dir_fd=self._here)

    def _enter(self, name: bytes) -> None:
        os.mkdir(name, 0o700, dir_fd=self._here)
        self._go(name)
        self._depth += 1

    def _leave(self, rights: int) -> None:
        if not self._depth:
            raise BadParcel("leaves more folders than it entered")
        os.fchmod(self._here, rights | 0o700)
        self._go(b"..")
        self._depth -= 1

    def _go(self, name: bytes) -> None:
        there = os.open(name, FOLDER, dir_fd=self._here)
        os.close(self._here)
        self._here = there

    def _end_file(self) -> None:
        if self._file is None or self._facts is None:
            return
        fd, facts = self._file, self._facts
        self._file = self._facts = None
        try:
            os.ftruncate(fd, facts.size)
            os.fchmod(fd, facts.rights)
            os.utime(fd, ns=(facts.changed_ns, facts.changed_ns))
        finally:
            os.close(fd)


def _check(name: bytes) -> bytes:
    if not name or name in {b".", b".."} or b"/" in name or b"\0" in name:
        raise BadParcel(f"{name!r} is no name of a file")
    return name
