"""Disk errors on purpose: the n-th write or sync in a folder fails."""

import itertools
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
    lasts: bool
    """Whether all later ones fail as well: a full disk stays full, a failed sync is followed by good ones."""


_CALLS = {"write": ("write", "pwrite", "ftruncate", "truncate"), "sync": ("fsync", "fdatasync")}


def arm(fault: Fault, folder: Path, on_fault: Callable[[str], None]) -> None:
    """Have this process meet the fault in `folder`. SQLite's own calls do not pass through here."""
    numbers = itertools.count(1)  # one step each, whichever thread asks
    root = str(folder.resolve())

    def strike(place: str) -> None:
        number = next(numbers)
        if number == fault.number:
            on_fault(place)
        if number == fault.number or (fault.lasts and number > fault.number):
            raise OSError(fault.errno, os.strerror(fault.errno))

    def wrap(real: Callable[..., Any]) -> Callable[..., Any]:
        def call(target: Any, *args: Any, **options: Any) -> Any:
            place = _place(target)
            if place.startswith(root):
                strike(place)
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
