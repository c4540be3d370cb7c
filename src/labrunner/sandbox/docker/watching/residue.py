"""The barrier, judged from outside: which processes may be left, which changes of the system count. Pure."""

from collections.abc import Iterable
from pathlib import PurePosixPath
from typing import Final

from labrunner.sandbox.docker.engine.replies import Process

SCRATCH: Final = ("/tmp", "/var/tmp", "/run", "/var/run", "/dev", "/proc", "/sys", "/agentlab")
"""Where changes say nothing about the tools that a grader uses."""
OURS: Final = frozenset({"/agentlab", "/etc", "/etc/hosts", "/etc/hostname", "/etc/resolv.conf", "/etc/mtab"})
"""What the engine itself makes in a container. A change inside `/etc` has a path of its own."""


def intruders(processes: Iterable[Process], first: int, expiry_s: int) -> tuple[Process, ...]:
    """Whoever is left beside the wrapper and its one expiry timer.

    The timer is a shell of the wrapper's with a `sleep` of exactly this many seconds, and nothing beside it.
    """
    alive = [process for process in processes if not process.is_dead and process.pid != first]
    sleeps = [process for process in alive if process.command == f"sleep {expiry_s}"]
    shells = {process.parent for process in sleeps}
    timer = {process.pid for process in alive if process.pid in shells and process.parent == first}
    timer |= {process.pid for process in sleeps if process.parent in timer}
    is_alone = len(timer) <= len(("its shell", "its sleep"))
    return tuple(process for process in alive if not is_alone or process.pid not in timer)


def changed_system(changes: Iterable[str], working: Iterable[str]) -> tuple[str, ...]:
    """Paths of the system that differ from the image, sorted.

    Where work is meant to be done nothing counts. A folder is listed by the engine whenever something in it
    changed: only the innermost paths count.
    """
    paths = set(changes)
    outer = {str(parent) for path in paths for parent in PurePosixPath(path).parents}
    harmless = (*SCRATCH, *working)
    return tuple(
        path
        for path in sorted(paths - outer - OURS)
        if not any(path == place or path.startswith(f"{place}/") for place in harmless)
    )
