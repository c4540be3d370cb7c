"""What a folder that is kept holds, as a digest, and its way to stable storage.

The digest is that of `experiment.folders` for what an author could write, and has a word for whatever else
an agent can: FIFOs, sockets, names that are no text. A folder that is too large has none: reading it would
cost more than it tells.
"""

import hashlib
import os
import stat
from collections.abc import Sequence
from dataclasses import dataclass
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


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeEntry:
    """Something in a folder that is kept."""

    path: str
    """Below the folder, as the disk has it; that of an empty folder ends with a slash."""
    kind: str
    """`file`, `program`, `link`, `folder`, or another word for whatever is none of these."""
    content: str
    """The digest of a file's content, or a link's target."""
    size: int = 0


def digest_tree(root: Path, most: int = MOST_ENTRIES) -> str | None:
    """Digest of what a folder holds, whatever that is; None where that is too much or can't be read."""
    try:
        if count([root], most)[0] > MOST_BYTES:
            return None
        return digest_entries(list_entries(root, most))
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


def digest_entries(entries: Sequence[TreeEntry]) -> str:
    """Digest of what a folder holds, from its entries."""
    told = [(say_name(each.path), each.kind, each.content) for each in entries]
    return canonical.digest(["folder_v1", sorted(told or [("", "folder", "")])])


def list_entries(root: Path, most: int = MOST_ENTRIES) -> list[TreeEntry]:
    """Everything below a folder but folders that hold something. Raises OSError, or TooMany beyond limits."""
    entries: list[TreeEntry] = []
    size = 0
    for found in walk(root, most):
        if stat.S_ISDIR(found.mode):
            if found.depth > DEEPEST:
                raise TooMany
            if found.is_over and found.is_empty:
                entries.append(TreeEntry(path=f"{found.path}/", kind="folder", content=""))
            continue
        size += found.facts.st_size if stat.S_ISREG(found.mode) else 0
        if size > MOST_BYTES:
            raise TooMany
        kind, content = _content(found)
        entries.append(TreeEntry(path=found.path, kind=kind, content=content, size=found.facts.st_size))
    return entries


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
