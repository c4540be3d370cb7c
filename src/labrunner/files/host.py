"""What this host is: the machine, this boot of it, and whether a process of it still lives."""

import os
import platform
from functools import cache
from pathlib import Path
from typing import Final

STARTED: Final = 19
"""Where the kernel's line about a process says when it began, counted behind its name."""
LONGEST_WORD: Final = 32 * 4096 - 1
"""Bytes of one argument, or of a variable with its name: MAX_ARG_STRLEN, less the byte that ends it."""


@cache
def machine_id() -> str:
    """A name of this machine that stays: an engine may serve several."""
    try:
        return Path("/etc/machine-id").read_text(encoding="ascii").strip()[:12] or platform.node()
    except OSError:
        return platform.node()


@cache
def boot_id() -> str:
    """A name of this boot of the machine; empty where the system has none."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return ""


def process_mark() -> str:
    """This very process: machine, user, number, and when it began, because numbers are used again."""
    return f"{machine_id()}:{os.geteuid()}:{os.getpid()}:{_began(os.getpid())}"


def is_process_gone(mark: str) -> bool:
    """Whether a mark is of a process of this user on this machine that has ended."""
    machine, user, pid, began = mark.split(":")
    if (machine, user) != (machine_id(), str(os.geteuid())):
        return False
    return _began(int(pid)) != began


def _began(pid: int) -> str:
    """When a process began, in the kernel's own ticks; empty when there is none of that number."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    fields = stat.rpartition(")")[2].split()
    return fields[STARTED] if len(fields) > STARTED else ""
