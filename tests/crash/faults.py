"""Disk errors on purpose: the n-th write or sync in a folder fails, and so does every one after it."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import msgspec


class Fault(msgspec.Struct, frozen=True, kw_only=True):
    """Which call fails, and how."""

    call: Literal["write", "sync"]
    number: int
    errno: int


_CALLS = {"write": ("write", "pwrite", "ftruncate", "truncate", "mkdir"), "sync": ("fsync", "fdatasync")}


def arm(fault: Fault, folder: Path, on_fault: Callable[[], None]) -> None:
    """Have this process meet the fault in `folder`. SQLite's own calls do not pass through here."""
    count = 0
    root = str(folder.resolve())

    def strike() -> None:
        nonlocal count
        count += 1
        if count == fault.number:
            on_fault()
        if count >= fault.number:
            raise OSError(fault.errno, os.strerror(fault.errno))

    def wrap(real: Callable[..., Any]) -> Callable[..., Any]:
        def call(target: Any, *args: Any, **options: Any) -> Any:
            if _place(target).startswith(root):
                strike()
            return real(target, *args, **options)

        return call

    for name in _CALLS[fault.call]:
        vars(os)[name] = wrap(getattr(os, name))


def _place(target: Any) -> str:
    if isinstance(target, int):
        try:
            return str(Path(f"/proc/self/fd/{target}").readlink())
        except OSError:
            return ""
    return str(Path(os.fsdecode(target)).absolute())
