"""Copying what a sandbox left, whatever it built: any depth, any name, holes kept.

Rules: no link is followed. Files are shared with the source where that is asked for and the file system can,
or cloned where it can. Sockets and devices mean nothing elsewhere, and are left out. Done twice, it goes on
where it was: a file that has its name is whole. Until then it lies beside the copy, where nothing that a
sandbox named can be in its place.
"""

import errno
import fcntl
import os
import stat
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from labrunner.files.descriptors import FOLDER, NEW_FILE, sync
from labrunner.files.strangers.tree import Found, exists_in, find_data, walk

COPYING: Final = ".copying-"
"""How the name of a file begins that is not whole yet."""
_FICLONE: Final = 0x40049409
_CHUNK: Final = 1 << 20
_NOT_CLONED: Final = frozenset({errno.EXDEV, errno.EOPNOTSUPP, errno.EINVAL, errno.ENOTTY, errno.EPERM})


def copy_tree(source: Path, target: Path, *, shares_files: bool = False, syncs: bool = False) -> None:
    """Make `target` hold what `source` holds; with `syncs`, durably."""
    target.mkdir(parents=True, exist_ok=True)
    unfinished = target.with_name(f"{COPYING}{target.name}")
    copy = _Copy(os.open(target, FOLDER), unfinished, shares_files=shares_files, syncs=syncs)
    try:
        for found in walk(source):
            copy.take(found)
        copy.settle()
    finally:
        os.close(copy.here)


@dataclass(slots=True)
class _Copy:
    """One copy, in the folder that it has come to."""

    here: int
    unfinished: Path
    """Where a file lies until it is whole."""
    shares_files: bool
    syncs: bool

    def take(self, found: Found) -> None:
        """Copy one thing; folders are entered and left as the walk does."""
        if found.is_over:
            self.settle()
            os.fchmod(self.here, stat.S_IMODE(found.mode) | 0o700)
            self._go("..")
        elif stat.S_ISDIR(found.mode):
            with suppress(FileExistsError):
                os.mkdir(found.name, 0o700, dir_fd=self.here)
            self._go(found.name)
        elif not exists_in(found.name, self.here):
            self._take_file(found)

    def settle(self) -> None:
        """Make the names of this folder durable."""
        if self.syncs:
            sync(self.here)

    def _go(self, name: str) -> None:
        there = os.open(name, FOLDER, dir_fd=self.here)
        os.close(self.here)
        self.here = there

    def _take_file(self, found: Found) -> None:
        if self.shares_files and self._share(found):
            return
        if stat.S_ISLNK(found.mode):
            os.symlink(os.readlink(found.name, dir_fd=found.folder), found.name, dir_fd=self.here)
        elif stat.S_ISFIFO(found.mode):
            os.mkfifo(found.name, stat.S_IMODE(found.mode), dir_fd=self.here)
        elif stat.S_ISREG(found.mode):
            self._copy_file(found)

    def _share(self, found: Found) -> bool:
        try:
            os.link(
                found.name, found.name, src_dir_fd=found.folder, dst_dir_fd=self.here, follow_symlinks=False
            )
        except OSError:
            return False
        return True

    def _copy_file(self, found: Found) -> None:
        source, target = found.open(), os.open(self.unfinished, NEW_FILE, 0o600)
        try:
            _copy_data(source, target, found.facts)
            os.fchmod(target, stat.S_IMODE(found.mode))
            os.utime(target, ns=(found.facts.st_atime_ns, found.facts.st_mtime_ns))
            if self.syncs:
                sync(target)
        finally:
            os.close(source)
            os.close(target)
        os.rename(self.unfinished, found.name, dst_dir_fd=self.here)


def _copy_data(source: int, target: int, facts: os.stat_result) -> None:
    try:
        fcntl.ioctl(target, _FICLONE, source)
    except OSError as error:
        if error.errno not in _NOT_CLONED:
            raise
    else:
        return
    for start, end in find_data(source, facts):
        at = start
        while at < end and (chunk := os.pread(source, min(_CHUNK, end - at), at)):
            at += os.pwrite(target, chunk, at)
    os.ftruncate(target, facts.st_size)
