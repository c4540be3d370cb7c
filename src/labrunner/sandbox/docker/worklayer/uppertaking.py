"""A layer of work, read from a container's own layer, where this host lets us look.

A layer of overlay2 holds whatever was touched, a device without number for what was removed, and a mark on a
folder that was made anew. Where the kernel keeps a folder's or a file's data elsewhere (moved folders,
changed rights alone), the layer's own files do not tell: then the engine is asked instead.
"""

import os
import stat
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from labrunner.files.descriptors import FILE
from labrunner.files.layering.layerfile import LONGEST_PATH, LayerWriter, is_of_repository
from labrunner.files.strangers.tree import Found, walk
from labrunner.sandbox.docker.watching.layer import is_marked, is_opaque

ELSEWHERE: Final = ("overlay.redirect", "overlay.metacopy")
"""Marks of what has its data in another place."""
MOST_LINKS: Final = 40
_LEFT_OUT: Final = {stat.S_IFCHR: "devices", stat.S_IFBLK: "devices", stat.S_IFSOCK: "sockets"}


class CannotTell(Exception):
    """A layer's own files do not say what its container saw."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UpperWork:
    """What a container's layer holds below a folder."""

    upper: Path
    lower: tuple[Path, ...]
    """Topmost first."""
    folder: str
    """Of the image, without links in its path."""

    def find_removed(self) -> tuple[str, ...]:
        """Paths below the folder that are gone; an empty one for the folder itself. Raises CannotTell."""
        is_anew = False
        for path in _ways(self.folder):
            facts = self._facts(path)
            if facts is None:
                return ()
            if not stat.S_ISDIR(facts.st_mode):
                return ("",)
            is_anew = is_anew or self._is_anew(f"{self.upper}{path}")
        removed = tuple(self._removed_below(is_anew=is_anew))
        return ("",) if is_anew and self._is_in_image("") else removed

    def write(self, writer: LayerWriter) -> None:
        """Write what was added and changed."""
        if not all(self._is_folder(path) for path in _ways(self.folder)):
            if (facts := self._facts(self.folder)) is not None and not _is_whiteout(facts):
                writer.leave_out("folder")
            return
        writer.add(make_member("", os.lstat(f"{self.upper}{self.folder}")))
        seen = _Seen()
        for found in self._walk():
            if not found.is_over and not _is_whiteout(found.facts):
                _write(found, writer, seen)

    def _removed_below(self, *, is_anew: bool) -> Iterator[str]:
        anew = {""} if is_anew else set[str]()
        for found in self._walk():
            if found.is_over:
                continue
            is_inner = "/".join(found.above) in anew
            is_folder, is_gone = self._look_at(found)
            if is_folder and (is_inner or is_gone):
                anew.add(found.path)
            if is_gone and not is_inner and (not is_folder or self._is_in_image(found.path)):
                yield found.path

    def _look_at(self, found: Found) -> tuple[bool, bool]:
        """Whether something is a folder, and whether what the image has there is gone. Raises CannotTell."""
        here = f"/proc/self/fd/{found.folder}/{found.name}"
        if stat.S_ISDIR(found.mode):
            return True, self._is_anew(here)
        if stat.S_ISREG(found.mode):
            _refuse_elsewhere(here)
        return False, _is_whiteout(found.facts)

    def _walk(self) -> Iterator[Found]:
        return walk(Path(f"{self.upper}{self.folder}"), as_it_is=True)

    def _is_anew(self, folder: str) -> bool:
        _refuse_elsewhere(folder)
        return is_opaque(folder)

    def _is_folder(self, path: str) -> bool:
        facts = self._facts(path)
        return facts is not None and stat.S_ISDIR(facts.st_mode)

    def _facts(self, path: str) -> os.stat_result | None:
        try:
            return os.lstat(f"{self.upper}{path}")
        except (FileNotFoundError, NotADirectoryError):
            return None

    def _is_in_image(self, path: str) -> bool:
        full = f"{self.folder}/{path}" if path else self.folder
        return find_in(self.lower, full) is not None


@dataclass(slots=True, kw_only=True)
class _Way:
    """A path on its way through links."""

    left: list[str]
    done: list[str] = field(default_factory=list)


def resolve(lower: tuple[Path, ...], path: str) -> str:
    """A path of an image without the links that it leads through; what is not there stays as it is."""
    way = _Way(left=[part for part in reversed(path.split("/")) if part])
    for _ in range(len(way.left) + MOST_LINKS * 16):
        if not way.left:
            break
        _step(way, lower)
    return "/" + "/".join((*way.done, *reversed(way.left)))


def _step(way: _Way, lower: tuple[Path, ...]) -> None:
    part = way.left.pop()
    if part == "..":
        way.done = way.done[:-1]
        return
    there = find_in(lower, "/" + "/".join((*way.done, part)))
    if there is None or not there.is_symlink():
        way.done.append(part)
        return
    target = os.readlink(there)  # noqa: PTH115 - as it is, also one that ends with a slash
    if target.startswith("/"):
        way.done = []
    way.left += [part for part in reversed(target.split("/")) if part not in {"", "."}]


def find_in(lower: tuple[Path, ...], path: str) -> Path | None:
    """Where an image has a path: in the topmost of its layers that has it."""
    for layer in lower:
        place = f"{layer}{path}"
        try:
            facts = os.lstat(place)
        except OSError:
            continue
        return None if _is_whiteout(facts) else Path(place)
    return None


def make_member(path: str, facts: os.stat_result) -> tarfile.TarInfo:
    """What a layer keeps of something."""
    member = tarfile.TarInfo(path)
    member.mode, member.uid, member.gid = stat.S_IMODE(facts.st_mode), facts.st_uid, facts.st_gid
    seconds, rest = divmod(facts.st_mtime_ns, 10**9)
    member.mtime = seconds
    if seconds >= 0:
        member.pax_headers = {"mtime": f"{seconds}.{rest:09d}"}
    if stat.S_ISDIR(facts.st_mode):
        member.type = tarfile.DIRTYPE
    elif stat.S_ISLNK(facts.st_mode):
        member.type = tarfile.SYMTYPE
    elif stat.S_ISFIFO(facts.st_mode):
        member.type = tarfile.FIFOTYPE
    else:
        member.size = facts.st_size
    return member


_Seen = dict[tuple[int, int, bool], str]
"""The first names of files with several: one in the repository, one outside."""


def _write(found: Found, writer: LayerWriter, seen: _Seen) -> None:
    path, facts = found.path, found.facts
    if len(os.fsencode(path)) > LONGEST_PATH:
        return writer.leave_out("too deep")
    if (kind := stat.S_IFMT(facts.st_mode)) in _LEFT_OUT:
        return writer.leave_out(_LEFT_OUT[kind])
    member = make_member(path, facts)
    if stat.S_ISLNK(facts.st_mode):
        member.linkname = os.readlink(found.name, dir_fd=found.folder)
    if not stat.S_ISREG(facts.st_mode):
        return writer.add(member)
    key = (facts.st_dev, facts.st_ino, is_of_repository(path))
    if facts.st_nlink > 1 and (first := seen.setdefault(key, path)) != path:
        member.type, member.linkname, member.size = tarfile.LNKTYPE, first, 0
        return writer.add(member)
    with os.fdopen(os.open(found.name, FILE, dir_fd=found.folder), "rb", buffering=0) as content:
        return writer.add(member, content)


def _ways(folder: str) -> Iterator[str]:
    """The folders on the way to one, from the top, and itself."""
    parts = folder.split("/")[1:]
    return ("/" + "/".join(parts[: end + 1]) for end in range(len(parts)))


def _is_whiteout(facts: os.stat_result) -> bool:
    return stat.S_ISCHR(facts.st_mode) and facts.st_rdev == 0


def _refuse_elsewhere(place: str) -> None:
    if is_marked(place, ELSEWHERE):
        raise CannotTell
