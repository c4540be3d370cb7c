"""Searching everything that is kept of an attempt for declared secrets: masked, or dropped with a note.

Rules: a secret is covered in place by as many bytes, so that a database or an archive stays readable; a file
with other names is replaced, because those may lie outside. Names of files and targets of links are searched
like contents. What can't be read or written is dropped: nothing unsearched is kept. Memory is bounded by a
chunk, time by what lies on the disk: holes of sparse files are not read.
"""

import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Final

from labrunner.files.descriptors import write_all_at
from labrunner.files.strangers.masking import Masker
from labrunner.files.strangers.removal import remove
from labrunner.files.strangers.sealing import say_name
from labrunner.files.strangers.tree import Found, exists_in, find_data, walk

CHUNK: Final = 1 << 20
MOST_NAMED: Final = 20
"""Files that a record names; more are counted."""
LONGEST_NAME: Final = 300
LONGEST_PLACE: Final = 240
"""Bytes of a masked name, which may be longer than what it covers: file systems take 255."""
_WRITE: Final = os.O_WRONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class Redactor:
    """Searches folders one after another, and remembers what it found."""

    def __init__(self, masker: Masker) -> None:
        """Begin with nothing found."""
        self._masker = masker
        self._linked: dict[tuple[int, int], bool] = {}
        self.masked: dict[str, int] = {}
        """How many secrets were masked, by file; `…` counts those of files that are not named."""
        self.dropped: dict[str, str] = {}
        """Why a file was not kept."""

    @property
    def count(self) -> int:
        """How many secrets were masked."""
        return sum(self.masked.values())

    def note_masked(self, path: str, count: int) -> None:
        """Remember that secrets were masked in a file."""
        if count:
            name = self._say(path) if len(self.masked) < MOST_NAMED else "…"
            self.masked[name] = self.masked.get(name, 0) + count

    def note_dropped(self, path: str, why: str) -> None:
        """Remember that a file was not kept."""
        name = self._say(path) if len(self.dropped) < MOST_NAMED else "…"
        self.dropped[name] = self._say(why)

    def redact(self, folder: Path, shown: str) -> None:
        """Search what lies below a folder, which may be anything; `shown` is its name in notes."""
        if not self._masker.needles or not os.path.lexists(folder):
            return
        if not stat.S_ISDIR(os.lstat(folder).st_mode):
            remove(folder)
            self.note_dropped(shown, "not a folder any more")
            return
        for found in walk(folder):
            path = f"{shown}/{found.path}"
            try:
                self._look_at(found, path)
            except OSError as error:
                self._drop(found, path, f"could not be searched for secrets: {error.strerror}")

    def _look_at(self, found: Found, path: str) -> None:
        if stat.S_ISDIR(found.mode):
            if found.is_over:  # until then the walk needs its name
                self._mask_name(found, path)
            return
        if stat.S_ISLNK(found.mode):
            self._mask_target(found, path)
        elif stat.S_ISREG(found.mode) and found.facts.st_size:
            self._mask_content(found, path)
        self._mask_name(found, path)

    def _mask_name(self, found: Found, path: str) -> None:
        name, count = self._masker.mask(os.fsencode(found.name))
        if not count:
            return
        with suppress(FileNotFoundError):  # its content was reason enough to drop it
            place = os.fsdecode(name.replace(b"/", b"-")[:LONGEST_PLACE])
            if exists_in(place, found.folder):
                place += f"-{secrets.token_hex(4)}"
            os.rename(found.name, place, src_dir_fd=found.folder, dst_dir_fd=found.folder)
            self.note_masked(path, count)

    def _mask_target(self, found: Found, path: str) -> None:
        target, count = self._masker.mask(os.fsencode(os.readlink(found.name, dir_fd=found.folder)))
        if count:
            os.unlink(found.name, dir_fd=found.folder)
            os.symlink(os.fsdecode(target), found.name, dir_fd=found.folder)
            self.note_masked(path, count)

    def _mask_content(self, found: Found, path: str) -> None:
        key, is_linked = (found.facts.st_dev, found.facts.st_ino), found.facts.st_nlink > 1
        if is_linked and key in self._linked:
            if self._linked[key]:
                self._drop(found, path, "another name of a file that held secrets")
            return
        count = self._cover_in_place(found)
        if is_linked:
            self._linked[key] = count > 0
        self.note_masked(path, count)

    def _cover_in_place(self, found: Found) -> int:
        with ExitStack() as stack:
            source = found.open()
            stack.callback(os.close, source)
            count, target = 0, -1
            for offset, cover in self._find(source, found.facts):
                if target < 0:
                    target = _open_own(found, source)
                    stack.callback(os.close, target)
                os.pwrite(target, cover, offset)
                count += 1
            return count

    def _find(self, source: int, facts: os.stat_result) -> Iterator[tuple[int, bytes]]:
        """Give each secret of a file by its offset, with what is to cover it."""
        keep, tail, tail_at = self._masker.longest - 1, b"", -1
        for at, chunk in _read(source, facts):
            data = tail + chunk if tail_at + len(tail) == at else chunk
            start = at + len(chunk) - len(data)
            covers = self._masker.cover(data)
            for offset, cover in covers.items():
                yield start + offset, cover
            tail = _cover_all(data, covers)[-keep:]
            tail_at = at + len(chunk) - len(tail)

    def _drop(self, found: Found, path: str, why: str) -> None:
        """Remove a file that can't be kept. One that can't even be removed ends the collecting."""
        if stat.S_ISDIR(found.mode):
            raise OSError(f"{path}: {why}")
        with suppress(FileNotFoundError):  # a link goes before its masked one is made
            os.unlink(found.name, dir_fd=found.folder)
        self.note_dropped(path, why)

    def _say(self, text: str) -> str:
        return self._masker.mask_text(say_name(text))[:LONGEST_NAME]


def redact_layer(path: Path, masker: Masker, redactor: Redactor) -> str | None:
    """Cover the secrets in a layer; why that can't be done, if it can't."""
    # Here, because few attempts have a layer and every command would wait for it.
    from labrunner.files.layering.layercover import cover_layer
    from labrunner.files.layering.memberreading import LayerRefused

    try:
        redactor.note_masked(path.name, cover_layer(path, masker))
    except (LayerRefused, OSError) as error:
        return f"could not be searched for secrets: {error}"
    return None


def _read(fd: int, facts: os.stat_result) -> Iterator[tuple[int, bytes]]:
    """Read a file's data chunk by chunk, each with its offset; holes are passed over."""
    for start, end in find_data(fd, facts):
        at = start
        while at < end and (chunk := os.pread(fd, min(CHUNK, end - at), at)):
            yield at, chunk
            at += len(chunk)


def _cover_all(data: bytes, covers: dict[int, bytes]) -> bytes:
    if not covers:
        return data
    changed = bytearray(data)
    for offset, cover in covers.items():
        changed[offset : offset + len(cover)] = cover
    return bytes(changed)


def _open_own(found: Found, source: int) -> int:
    """Open a file for writing; one with other names is replaced first, because those may lie outside."""
    if found.facts.st_nlink > 1:
        _replace_by_copy(found, source)
    return found.open(_WRITE)


def _replace_by_copy(found: Found, source: int) -> None:
    place = f".lab-{secrets.token_hex(8)}"
    target = os.open(place, _NEW, 0o600, dir_fd=found.folder)
    try:
        for at, chunk in _read(source, found.facts):
            write_all_at(target, chunk, at)
        os.ftruncate(target, found.facts.st_size)
        os.fchmod(target, stat.S_IMODE(found.mode))
        os.rename(place, found.name, src_dir_fd=found.folder, dst_dir_fd=found.folder)
    except OSError:
        os.unlink(place, dir_fd=found.folder)  # it has the secrets, and the walk will not come by
        raise
    finally:
        os.close(target)
