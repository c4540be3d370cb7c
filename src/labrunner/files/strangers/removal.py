"""Removing what a sandbox left, whatever rights it took away and however deep it built.

Links are removed, never followed. A folder too deep down is first moved up to the top, so that neither
open descriptors nor the depth of calls grow with the tree.
"""

import errno
import os
import secrets
import stat
from contextlib import suppress
from pathlib import Path
from typing import Final

from labrunner.files.descriptors import FOLDER
from labrunner.files.strangers.hostile import open_folder, restore_rights

_DEEPEST: Final = 32


def remove(path: Path) -> None:
    """Remove a file, link or folder; nothing there is fine."""
    try:
        mode = os.lstat(path).st_mode
    except FileNotFoundError:
        return
    if stat.S_ISDIR(mode):
        remove_tree(path)
    else:
        path.unlink()


def remove_tree(path: Path) -> None:
    """Remove a folder with all that is in it; nothing there is fine."""
    if _remove_if_hollow(path):
        return
    if path.is_symlink():
        raise OSError(errno.ENOTDIR, "a symbolic link in the place of a folder", str(path))
    with suppress(FileNotFoundError):
        top = open_folder(path)
        try:
            restore_rights(path)
            while entries := _list(top):
                _fell(top, entries, top=top, depth=1)
        finally:
            os.close(top)
        path.rmdir()


def remove_if_possible(path: Path) -> None:
    """Remove what nobody needs; where that fails it stays, for `lab clean` to name."""
    with suppress(OSError):
        remove(path)


def gone_name(folder: Path) -> Path:
    """What a folder is called while it is thrown away."""
    return folder.with_name(f"{folder.name}.gone")


def throw_away(folder: Path) -> None:
    """Remove a folder that has a meaning by its name: what still has the name is whole, whenever we die."""
    gone = gone_name(folder)
    remove(gone)
    with suppress(FileNotFoundError):
        folder.rename(gone)
    remove(gone)


def throw_away_if_possible(folder: Path) -> None:
    """The same; where that fails, what is left stays, for `lab clean` to name."""
    with suppress(OSError):
        throw_away(folder)


def _remove_if_hollow(path: Path) -> bool:
    """Remove a folder that holds only empty folders, as most scratch folders do, in a tenth of the calls."""
    try:
        if not stat.S_ISDIR(os.lstat(path).st_mode):
            return False
        with os.scandir(path) as entries:
            inside = [entry.path for entry in entries]
        for inner in inside:
            os.rmdir(inner)  # noqa: PTH106 - strings: this is done for every attempt
        path.rmdir()
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True


def _list(folder: int) -> list[tuple[str, bool]]:
    """What an open folder holds: names, and which are folders. The listing tells, without a look at each."""
    with os.scandir(folder) as entries:
        return [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]


def _fell(folder: int, entries: list[tuple[str, bool]], *, top: int, depth: int) -> None:
    """Remove what an open folder holds, but for what is moved to the top."""
    for name, is_folder in entries:
        try:
            if is_folder:
                _fell_folder(folder, name, top=top, depth=depth)
            else:
                os.unlink(name, dir_fd=folder)
        except FileNotFoundError:
            continue


def _fell_folder(folder: int, name: str, *, top: int, depth: int) -> None:
    mode = os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode
    if mode & 0o700 != 0o700:  # listing, emptying and moving a folder each need a right of its own
        os.chmod(name, 0o700, dir_fd=folder)
    if depth > _DEEPEST:
        os.rename(name, f"moved-{secrets.token_hex(8)}", src_dir_fd=folder, dst_dir_fd=top)
        return
    inner = os.open(name, FOLDER, dir_fd=folder)
    try:
        _fell(inner, _list(inner), top=top, depth=depth + 1)
    finally:
        os.close(inner)
    os.rmdir(name, dir_fd=folder)
