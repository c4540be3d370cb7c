"""Removing what a sandbox left, whatever rights it took away; links are removed, never followed."""

import os
import shutil
import stat
from collections.abc import Callable
from pathlib import Path
from types import TracebackType

from labrunner.trial.handedin import restore_rights

_ExcInfo = tuple[type[BaseException], BaseException, TracebackType]


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
    if not _remove_if_hollow(path):
        shutil.rmtree(path, onerror=_restore_and_repeat)


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


def _restore_and_repeat(repeat: Callable[..., object], path: str, told: _ExcInfo) -> None:
    error = told[1]
    if isinstance(error, FileNotFoundError):
        return
    if not isinstance(error, PermissionError):
        raise error
    restore_rights(Path(path).parent)
    restore_rights(Path(path))
    if repeat in {os.open, os.scandir, os.lstat}:
        shutil.rmtree(path)
    else:
        repeat(path)
