"""Walking what a sandbox left, whatever it built: any depth, any name, any kind of file.

Rules: no link is followed, nothing is opened by more than one step, one descriptor is open however deep the
tree is. Only for trees that nobody changes any more but the caller, who may change what it has just been
given. Rights that a guest took away are given back to us on the way, unless all is to stay as it is.
"""

import errno
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from labrunner.files.descriptors import FILE, FOLDER
from labrunner.files.strangers.hostile import open_folder
from labrunner.files.strangers.usage import TooMany


@dataclass(frozen=True, slots=True)
class Found:
    """Something in an open folder; a folder is given twice: before what is in it, and after."""

    folder: int
    """Descriptor of the folder that it lies in: good until the walk goes on."""
    name: str
    above: list[str]
    """Names of the folders on the way, from below the root: as long as the walk does not go on."""
    facts: os.stat_result
    is_over: bool = False
    """A folder that is left now."""
    is_empty: bool = False
    """A folder, left, that held nothing."""

    @property
    def mode(self) -> int:
        """Kind and rights."""
        return self.facts.st_mode

    @property
    def path(self) -> str:
        """Where it lies below the root."""
        return "/".join((*self.above, self.name))

    @property
    def depth(self) -> int:
        """How many folders lie above it, below the root."""
        return len(self.above)

    def open(self, how: int = FILE) -> int:
        """Open it, giving ourselves the rights for it."""
        try:
            return os.open(self.name, how, dir_fd=self.folder)
        except PermissionError:
            if stat.S_ISLNK(self.mode):
                raise
            rights = 0o700 if stat.S_ISDIR(self.mode) else 0o600
            os.chmod(self.name, stat.S_IMODE(self.mode) | rights, dir_fd=self.folder)
            return os.open(self.name, how, dir_fd=self.folder)


@dataclass(slots=True)
class _Level:
    """A folder on the way down."""

    key: tuple[int, int]
    names: list[str] = field(default_factory=list)
    """Still to be given, last one first."""
    held: int = 0
    facts: os.stat_result | None = None


def walk(root: Path, most: int | None = None, *, as_it_is: bool = False) -> Iterator[Found]:
    """Give everything below a folder, in the order of names. Raises TooMany beyond `most` entries."""
    walker = _Walker(os.open(root, FOLDER) if as_it_is else open_folder(root), as_it_is=as_it_is)
    try:
        yield from walker.go_on(most)
    finally:
        os.close(walker.here)


class _Walker:
    """One walk, in the folder that it has come to."""

    def __init__(self, root: int, *, as_it_is: bool) -> None:
        self.here = root
        self._as_it_is = as_it_is
        self._above: list[str] = []
        self._levels = [_list(root)]

    def go_on(self, most: int | None) -> Iterator[Found]:
        """Give one thing after another."""
        seen = 0
        while True:
            if self._levels[-1].names:
                seen += 1
                if most is not None and seen > most:
                    raise TooMany
                found = self._next()
                yield found
                if stat.S_ISDIR(found.mode):
                    self._enter(found)
            elif len(self._levels) > 1:
                yield self._leave()
            else:
                return

    def _next(self) -> Found:
        name = self._levels[-1].names.pop()
        facts = os.stat(name, dir_fd=self.here, follow_symlinks=False)
        return Found(self.here, name, self._above, facts)

    def _enter(self, found: Found) -> None:
        inner = os.open(found.name, FOLDER, dir_fd=self.here) if self._as_it_is else _open_inner(found)
        os.close(self.here)
        self.here = inner
        self._above.append(found.name)
        self._levels.append(_list(inner, found.facts))

    def _leave(self) -> Found:
        left = self._levels.pop()
        outer = _open_outer(self.here, self._levels[-1].key)
        os.close(self.here)
        self.here = outer
        name = self._above.pop()
        assert left.facts is not None
        return Found(outer, name, self._above, left.facts, is_over=True, is_empty=left.held == 0)


def _list(folder: int, facts: os.stat_result | None = None) -> _Level:
    here = os.fstat(folder)
    names = sorted(os.listdir(folder), reverse=True)
    return _Level((here.st_dev, here.st_ino), names, len(names), facts)


def _open_inner(found: Found) -> int:
    inner = found.open(FOLDER)
    if found.mode & 0o700 != 0o700:  # searching and changing it need rights of their own
        os.fchmod(inner, stat.S_IMODE(found.mode) | 0o700)
    return inner


def _open_outer(folder: int, key: tuple[int, int]) -> int:
    """Go one folder up, which must be the one that we came from."""
    outer = os.open("..", FOLDER, dir_fd=folder)
    facts = os.fstat(outer)
    if (facts.st_dev, facts.st_ino) != key:
        os.close(outer)
        raise OSError(errno.ESTALE, "a folder was moved while it was looked at")
    return outer


def find_data(fd: int, facts: os.stat_result) -> Iterator[tuple[int, int]]:
    """Where a file has data: everywhere but in its holes."""
    if facts.st_blocks * 512 >= facts.st_size:
        yield 0, facts.st_size
        return
    end = 0
    while True:
        try:
            start = os.lseek(fd, end, os.SEEK_DATA)
        except OSError:  # nothing but a hole is left
            return
        end = os.lseek(fd, start, os.SEEK_HOLE)
        yield start, end


def exists_in(name: str, folder: int) -> bool:
    """Whether an open folder has something of that name."""
    try:
        os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True
