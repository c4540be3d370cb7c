"""A container's processes as the kernel of this host lists them, where the engine runs on it.

The same list as the engine's, without a process started for it. It is believed only if the kernel itself
says that the container's first process belongs to a control group of that container's name.

Rule: no process is missed because it forked and ended while it was looked at. Whoever is listed is listed
again after everybody was looked at; where the two lists differ, or somebody was gone, this starts anew.
"""

import errno
import os
from pathlib import Path
from typing import Final

from labrunner.sandbox.docker.engine.replies import Process

PROC: Final = Path("/proc")
GROUPS: Final = Path("/sys/fs/cgroup")
LOOKS: Final = 3
"""How often it is looked at a container that does not hold still, before that itself is told."""
GONE: Final = "(gone while it was looked at)"
_MEMBERS: Final = "cgroup.procs"
_THREADS: Final = 17
"""Where `/proc/PID/stat` counts threads, after the command's name."""


def list_processes(
    container: str, first: int, *, proc: Path = PROC, groups: Path = GROUPS
) -> tuple[Process, ...] | None:
    """Every process of a container; None when this host does not know it.

    Of one that never holds still those that come and go are told as alive: somebody forks there.
    """
    try:
        group = _find_group(container, proc / str(first) / "cgroup", groups)
        if group is None:
            return None
        found, unsettled = _look_around(group, proc)
        for _ in range(LOOKS - 1):
            if not unsettled:
                break
            found, unsettled = _look_around(group, proc)
    except OSError:
        return None
    if not any(process.pid == first for process in found):
        return None
    gone = (Process(pid=pid, parent=0, is_dead=False, command=GONE) for pid in sorted(unsettled))
    return (*found, *gone)


def is_of(container: str, pid: int, *, proc: Path = PROC) -> bool:
    """Whether this host's kernel says that a process belongs to a container."""
    try:
        return container in (proc / str(pid) / "cgroup").read_text(encoding="utf-8")
    except OSError:
        return False


def _find_group(container: str, memberships: Path, groups: Path) -> Path | None:
    """The control group that holds the whole container and is named after it."""
    for line in memberships.read_text(encoding="utf-8").splitlines():
        _, controllers, path = line.split(":", 2)
        parts = path.strip("/").split("/")
        named = next((at for at, part in enumerate(parts, 1) if container in part), None)
        if named is None:
            continue
        tree = groups / controllers if controllers else groups
        # The first process may sit in a group of its own further in; the others need not.
        if (group := tree.joinpath(*parts[:named])).is_dir():
            return group
    return None


def _look_around(group: Path, proc: Path) -> tuple[tuple[Process, ...], set[int]]:
    """Who is there, and about whom nothing can be said: gone meanwhile, or come."""
    before = _members(group)
    found = tuple(process for pid in sorted(before) if (process := _look(proc / str(pid), pid)) is not None)
    after = _members(group)
    known = {process.pid for process in found}
    # One that was seen but is not listed any more may have forked after it was seen.
    unsettled = (before - known) | (before ^ after)
    return tuple(process for process in found if process.pid not in unsettled), unsettled


def _members(group: Path) -> set[int]:
    """The processes of a group and of all groups inside it."""
    inner = [Path(folder) for folder, _, _ in os.walk(group) if folder != str(group)]
    found = set(map(int, (group / _MEMBERS).read_text(encoding="ascii").split()))
    for each in inner:
        try:
            found |= set(map(int, (each / _MEMBERS).read_text(encoding="ascii").split()))
        except OSError as error:
            # A group of threads has no such list: its processes are in the one of a group around it.
            # One that is gone by now had to be empty; who moved out of it is in the second list.
            if error.errno not in {errno.EOPNOTSUPP, errno.ENOENT, errno.ENODEV}:
                raise
    return found


def _look(folder: Path, pid: int) -> Process | None:
    """What a process is; None when it is gone by now."""
    try:
        stat = (folder / "stat").read_text(encoding="utf-8", errors="replace")
        command = (folder / "cmdline").read_bytes()
    except OSError:
        return None
    fields = stat.rpartition(")")[2].split()
    return Process.seen(
        pid=pid,
        parent=int(fields[1]),
        state=fields[0],
        has_threads=int(fields[_THREADS]) > 1,
        command=command.rstrip(b"\0").replace(b"\0", b" ").decode(errors="replace"),
    )
