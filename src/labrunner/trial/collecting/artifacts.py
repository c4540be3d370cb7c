"""Files that `collect` asks for, copied out of a finished sandbox into the attempt's artifacts.

Rules: the sandbox is hostile. No link is followed at any step, only plain files are taken, in the order of
their names; what is over the caps is left out. A path that is not there is no error: agents may not have
written it.
"""

import asyncio
import errno
import os
import stat
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing, suppress
from pathlib import Path, PurePosixPath
from typing import IO, TYPE_CHECKING, Final

from labrunner.errors import SandboxFailed
from labrunner.files.descriptors import FILE, FOLDER
from labrunner.files.layering.layernote import PATCH
from labrunner.sandbox.door import AttemptFolders, GuestPaths, Sandbox

if TYPE_CHECKING:
    import tarfile

MOST_FILES: Final = 200
MOST_BYTES: Final = 64 * 1024 * 1024
ARCHIVE_CAP: Final = 2 * MOST_BYTES
DEEPEST: Final = 32
_NO_PLACE: Final = frozenset({errno.ENAMETOOLONG, errno.ENOTDIR, errno.EISDIR, errno.EEXIST})
"""A name is too long for where we are, or what was taken before lies where it would."""


async def copy_out(
    sandbox: Sandbox, guest: GuestPaths, folders: AttemptFolders, paths: tuple[str, ...]
) -> None:
    """Copy paths of a finished sandbox; a relative one is taken from the workspace."""
    if not paths:
        return
    basket = Basket(folders.artifacts)
    roots = {guest.workspace: folders.workspace, guest.out: folders.out, guest.state: folders.state}
    for path in paths:
        if path == PATCH:  # made at the barrier
            continue
        full = PurePosixPath(guest.workspace) / path
        root = next((root for root in roots if full.is_relative_to(root)), None)
        with SandboxFailed.during("collect", f"collecting {path}"):
            if root is not None:
                inner = full.relative_to(root).parts
                await asyncio.to_thread(copy_below, roots[root], inner, basket, _place(path))
            else:
                await _copy_from_archive(sandbox, path, basket, folders.root / "artifacts.tar")


def _place(path: str) -> PurePosixPath:
    """Where a path's files lie among the artifacts."""
    parts = [part for part in PurePosixPath(path).parts if part not in {"/", "..", "."}]
    return PurePosixPath(*parts)


class Basket:
    """What has been taken so far, within the caps."""

    def __init__(self, folder: Path) -> None:
        """Take nothing yet."""
        self._folder = folder
        self._files = 0
        self._bytes = 0

    def take(self, name: PurePosixPath, source: IO[bytes], size: int) -> None:
        """Take a file if there is room for all of it."""
        if self._files >= MOST_FILES or self._bytes + size > MOST_BYTES:
            return
        target = self._folder / _sayable(name)
        data = source.read(size)
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(data)
        except OSError as error:
            if error.errno in _NO_PLACE:
                return
            raise
        self._files += 1
        self._bytes += len(data)


def _sayable(name: PurePosixPath) -> str:
    """A name that records can hold: bytes that are no text are spelled out."""
    return os.fsencode(name).decode("utf-8", errors="backslashreplace")


def copy_below(root: Path, parts: tuple[str, ...], basket: Basket, name: PurePosixPath) -> None:
    """Take a file, or every file below a folder, from one of the attempt's own folders."""
    try:
        folder = os.open(root, FOLDER)
    except OSError:
        return
    try:
        for part in parts[:-1]:
            inner = os.open(part, FOLDER, dir_fd=folder)
            os.close(folder)
            folder = inner
        if parts:
            _take_entry(folder, parts[-1], basket, name, depth=0)
        else:
            _take_all(folder, basket, name, depth=0)
    except OSError:  # not there, or not what it was a moment ago
        return
    finally:
        os.close(folder)


def _take_all(folder: int, basket: Basket, name: PurePosixPath, *, depth: int) -> None:
    for entry in sorted(os.listdir(folder)):
        _take_entry(folder, entry, basket, name / entry, depth=depth)


def _take_entry(folder: int, entry: str, basket: Basket, name: PurePosixPath, *, depth: int) -> None:
    mode = os.stat(entry, dir_fd=folder, follow_symlinks=False).st_mode
    if stat.S_ISREG(mode):
        with os.fdopen(os.open(entry, FILE, dir_fd=folder), "rb") as file:
            facts = os.fstat(file.fileno())
            if stat.S_ISREG(facts.st_mode):
                basket.take(name, file, facts.st_size)
    elif stat.S_ISDIR(mode) and depth < DEEPEST:
        inner = os.open(entry, FOLDER, dir_fd=folder)
        try:
            _take_all(inner, basket, name, depth=depth + 1)
        finally:
            os.close(inner)


async def _copy_from_archive(sandbox: Sandbox, path: str, basket: Basket, archive: Path) -> None:
    try:
        async with aclosing(sandbox.fetch(path)) as stream:
            size = await _save(stream, archive)
        if size:
            await asyncio.to_thread(unpack_archive, archive, basket, _place(path))
    finally:
        archive.unlink(missing_ok=True)


async def _save(stream: AsyncIterator[bytes], archive: Path) -> int:
    """Write a stream to a file, up to the cap; how much it was."""
    size = 0
    with archive.open("wb") as file:
        async for chunk in stream:
            size += len(chunk)
            if size > ARCHIVE_CAP:
                break
            file.write(chunk)
    return size


def unpack_archive(archive: Path, basket: Basket, place: PurePosixPath) -> None:
    """Take the plain files of an archive, by name. One that was cut short gives what is whole."""
    import tarfile  # here, because few experiments collect and every command would wait for it

    with tarfile.open(archive) as opened:
        members = {PurePosixPath(member.name): member for member in _members(opened)}
        for name in sorted(members):
            inner = _place(str(PurePosixPath(*name.parts[1:])))
            with suppress(tarfile.ReadError):  # the one that was cut
                _take_member(opened, members[name], basket, place / inner)


def _take_member(
    opened: "tarfile.TarFile", member: "tarfile.TarInfo", basket: Basket, name: PurePosixPath
) -> None:
    source = opened.extractfile(member)
    if source is not None:
        basket.take(name, source, member.size)


def _members(opened: "tarfile.TarFile") -> "Iterator[tarfile.TarInfo]":
    import tarfile

    try:
        for member in opened:
            if member.isreg():
                yield member
    except tarfile.ReadError:
        return
