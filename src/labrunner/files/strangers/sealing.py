"""What a folder that is kept holds, as a digest, and its way to stable storage.

The digest is that of `experiment.folders` for what an author could write, and has a word for whatever else
an agent can: FIFOs, sockets, names that are no text. A folder that is too large has none: reading it would
cost more than it tells.
"""

import hashlib
import os
import stat
from pathlib import Path
from typing import Final

from labrunner.files.descriptors import FILE, FOLDER, sync
from labrunner.files.strangers.settling import sync_file_system
from labrunner.files.strangers.tree import Found, walk
from labrunner.files.strangers.usage import TooMany, count
from labrunner.records.encoding import canonical

MOST_ENTRIES: Final = 50_000
MOST_BYTES: Final = 1024 * 1024 * 1024
DEEPEST: Final = 1000
SYNCED_ALONE: Final = 16
"""Up to so many entries are synced one by one: beyond, syncing the whole file system is faster."""
_CHUNK: Final = 1 << 20
_KINDS: Final = {stat.S_IFIFO: "fifo", stat.S_IFSOCK: "socket", stat.S_IFBLK: "block", stat.S_IFCHR: "device"}


def digest_tree(root: Path, most: int = MOST_ENTRIES) -> str | None:
    """Digest of what a folder holds, whatever that is; None where that is too much or can't be read."""
    try:
        if count([root], most)[0] > MOST_BYTES:
            return None
        return canonical.digest(["folder_v1", sorted(_entries(root, most))])
    except (OSError, TooMany):
        return None


def settle_tree(root: Path) -> None:
    """Make all that a folder holds durable, with the folder itself."""
    try:
        for found in walk(root, SYNCED_ALONE):
            if stat.S_ISREG(found.mode) or found.is_over:
                _sync(found.open(FOLDER if found.is_over else FILE))
        _sync(os.open(root, FOLDER))
    except (TooMany, PermissionError):
        sync_file_system(root)


def _entries(root: Path, most: int) -> list[tuple[str, str, str]]:
    entries: list[tuple[str, str, str]] = []
    size, is_hollow = 0, True
    for found in walk(root, most):
        is_hollow = False
        if stat.S_ISDIR(found.mode):
            if found.depth > DEEPEST:
                raise TooMany
            if found.is_over and found.is_empty:
                entries.append((f"{say_name(found.path)}/", "folder", ""))
            continue
        size += found.facts.st_size if stat.S_ISREG(found.mode) else 0
        if size > MOST_BYTES:
            raise TooMany
        entries.append((say_name(found.path), *_content(found)))
    return [("", "folder", "")] if is_hollow else entries


def _content(found: Found) -> tuple[str, str]:
    if stat.S_ISLNK(found.mode):
        return "link", say_name(os.readlink(found.name, dir_fd=found.folder))
    if not stat.S_ISREG(found.mode):
        return _KINDS.get(stat.S_IFMT(found.mode), "other"), ""
    state = hashlib.sha256()
    fd = found.open()
    try:
        while chunk := os.read(fd, _CHUNK):
            state.update(chunk)
    finally:
        os.close(fd)
    return "program" if found.mode & stat.S_IXUSR else "file", f"sha256:{state.hexdigest()}"


def say_name(name: str) -> str:
    """A name that records can hold: bytes that are no text are spelled out."""
    return os.fsencode(name).decode("utf-8", errors="backslashreplace")


def _sync(fd: int) -> None:
    try:
        sync(fd)
    finally:
        os.close(fd)
