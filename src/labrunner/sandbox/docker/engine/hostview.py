"""A container's processes as the kernel of this host lists them, where the engine runs on it.

The same list as the engine's, without a process started for it. It is believed only if the kernel itself
says that the container's first process belongs to a control group of that container's name.
"""

from pathlib import Path
from typing import Final

from labrunner.sandbox.docker.engine.replies import Process

PROC: Final = Path("/proc")
GROUPS: Final = Path("/sys/fs/cgroup")
DEAD: Final = ("Z", "X")


def list_processes(container: str, first: int) -> tuple[Process, ...] | None:
    """Every process of a container; None when this host does not know it."""
    try:
        group = _find_group(container, first)
        if group is None:
            return None
        pids = (group / "cgroup.procs").read_text(encoding="ascii").split()
    except OSError:
        return None
    found = tuple(process for pid in pids if (process := _look(pid)) is not None)
    return found if any(process.pid == first for process in found) else None


def _find_group(container: str, first: int) -> Path | None:
    """A control group that holds the whole container and is named after it."""
    for line in (PROC / str(first) / "cgroup").read_text(encoding="utf-8").splitlines():
        _, controllers, path = line.split(":", 2)
        if container not in path:
            continue
        tree = GROUPS / controllers if controllers else GROUPS
        if (group := tree / path.lstrip("/")).is_dir():
            return group
    return None


def _look(pid: str) -> Process | None:
    """What a process is; None when it is gone by now."""
    try:
        stat = (PROC / pid / "stat").read_text(encoding="utf-8", errors="replace")
        command = (PROC / pid / "cmdline").read_bytes()
    except OSError:
        return None
    state, parent = stat.rpartition(")")[2].split()[:2]
    words = command.rstrip(b"\0").replace(b"\0", b" ").decode(errors="replace")
    return Process(pid=int(pid), parent=int(parent), is_dead=state in DEAD, command=words)
