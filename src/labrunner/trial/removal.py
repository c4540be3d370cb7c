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
    shutil.rmtree(path, onerror=_restore_and_repeat)


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
