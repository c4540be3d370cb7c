"""Reading what a hostile sandbox left behind.

Rules: no link is followed at any step, only plain files are opened, no read can block or exceed its cap.
"""

import errno
import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Literal

from labrunner.files.descriptors import FILE, FOLDER
from labrunner.files.strangers.masking import Masker

RefusalReason = Literal["missing", "not_a_file", "too_big", "unreadable"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """Why a file was not read."""

    reason: RefusalReason
    message: str


def read_plain(folder: Path, name: str, *, cap: int) -> bytes | Refusal:
    """Read the plain file `name` (one step, no slashes) of `folder`, at most `cap` bytes."""
    try:
        folder_fd = open_folder(folder)
    except OSError as error:
        return Refusal(reason="unreadable", message=f"{folder.name}/: {error.strerror}")
    try:
        return _read_at(folder_fd, folder, name, cap)
    finally:
        os.close(folder_fd)


def read_masked(folder: Path, name: str, masker: Masker, *, cap: int) -> bytes | Refusal:
    """The same, without secrets."""
    data = read_plain(folder, name, cap=cap)
    return masker.mask_document(data)[0] if isinstance(data, bytes) else data


def open_plain(path: Path) -> BinaryIO:
    """Open a plain file by its path, never where a link leads. Raises OSError, also for anything else."""
    fd = os.open(path, FILE)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise OSError(errno.EINVAL, "is not a plain file", str(path))
    return os.fdopen(fd, "rb")


def open_below(folder: Path, path: str) -> BinaryIO:
    """Open a plain file below a folder, following no link at any step. Raises OSError."""
    *steps, name = path.split("/")
    if any(step in {"", ".", ".."} for step in (*steps, name)):
        raise OSError(errno.EINVAL, "is not a path below a folder", path)
    here = os.open(folder, FOLDER)
    try:
        for step in steps:
            inner = os.open(step, FOLDER, dir_fd=here)
            os.close(here)
            here = inner
        fd = os.open(name, FILE, dir_fd=here)
    finally:
        os.close(here)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise OSError(errno.EINVAL, "is not a plain file", path)
    return os.fdopen(fd, "rb")


def list_names(folder: Path) -> list[str]:
    """Names of what lies in a folder, which may be anything."""
    fd = open_folder(folder)
    try:
        return os.listdir(fd)  # noqa: PTH208 - a descriptor, not a path
    finally:
        os.close(fd)


def open_folder(folder: Path) -> int:
    """Open a folder without following a link, giving ourselves back the rights that a guest took away."""
    try:
        fd = os.open(folder, FOLDER)
    except PermissionError:
        restore_rights(folder)
        return os.open(folder, FOLDER)
    facts, ours = os.fstat(fd), os.geteuid()
    if not facts.st_mode & stat.S_IXUSR and ours != 0 and facts.st_uid == ours:
        os.fchmod(fd, stat.S_IMODE(facts.st_mode) | 0o700)  # it could be listed, but nothing in it be reached
    return fd


def restore_rights(path: Path) -> None:
    """Make a path of ours readable and writable for us again; links and foreign types are left alone."""
    mode = os.lstat(path).st_mode
    if stat.S_ISDIR(mode):
        path.chmod(stat.S_IMODE(mode) | 0o700)
    elif stat.S_ISREG(mode):
        path.chmod(stat.S_IMODE(mode) | 0o600)


def _read_at(folder_fd: int, folder: Path, name: str, cap: int) -> bytes | Refusal:
    shown = f"{folder.name}/{name}"
    try:
        facts = os.stat(name, dir_fd=folder_fd, follow_symlinks=False)
    except FileNotFoundError:
        return Refusal(reason="missing", message=f"{shown} was not written")
    except OSError as error:
        return Refusal(reason="unreadable", message=f"{shown}: {error.strerror}")
    if not stat.S_ISREG(facts.st_mode):
        kind = _kind(facts.st_mode)
        return Refusal(reason="not_a_file", message=f"{shown} is {kind}, expected a plain file")
    try:
        fd = _open_file(folder_fd, folder, name)
    except OSError as error:
        return Refusal(reason="unreadable", message=f"{shown}: {error.strerror}")
    with os.fdopen(fd, "rb") as file:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            return Refusal(reason="not_a_file", message=f"{shown} is not a plain file")
        data = file.read(cap + 1)
    if len(data) > cap:
        return Refusal(reason="too_big", message=f"{shown} is larger than {cap} bytes")
    return data


def _open_file(folder_fd: int, folder: Path, name: str) -> int:
    try:
        return os.open(name, FILE, dir_fd=folder_fd)
    except PermissionError:
        restore_rights(folder / name)
        return os.open(name, FILE, dir_fd=folder_fd)


def _kind(mode: int) -> str:
    kinds = {
        stat.S_IFLNK: "a symbolic link",
        stat.S_IFDIR: "a folder",
        stat.S_IFIFO: "a FIFO",
        stat.S_IFSOCK: "a socket",
        stat.S_IFBLK: "a block device",
        stat.S_IFCHR: "a character device",
    }
    return kinds.get(stat.S_IFMT(mode), "of an unknown type")
