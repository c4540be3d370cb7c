"""Control groups: one small group per keeper, where this user may make one.

Version 1 (one tree per controller) and version 2 (one tree; root, or delegated). Groups are made below
the group that this process is in (v1) or beside it (v2, where a group with processes can't have children
with limits), so that every limit that already holds for the runner holds for attempts too. A group serves
one phase after another, because entering one can cost more than a launch: the kernel waits for every
processor. Whether memory ran out is told by the kernel's own count of kills, never by an exit status.
"""

import itertools
import os
import re
import time
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

Controller = Literal["memory", "pids", "cpu"]
CONTROLLERS: tuple[Controller, ...] = ("memory", "pids", "cpu")
CPU_PERIOD_US = 100_000
STALE_AFTER_S = 60.0
"""Younger ones may be another runner's, whose pid can't be seen from here."""
_numbers = itertools.count()


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupLimits:
    """What a group may use; None leaves a controller alone."""

    memory_bytes: int | None = None
    pids: int | None = None
    cpus: float | None = None

    def controllers(self) -> tuple[Controller, ...]:
        """Which controllers these limits need."""
        asked = (self.memory_bytes, self.pids, self.cpus)
        return tuple(name for name, value in zip(CONTROLLERS, asked, strict=True) if value is not None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """A group: a folder in each tree that it needs."""

    folders: tuple[str, ...]
    way_back: tuple[str, ...]
    """Where a member came from, tree by tree."""
    oom_file: str | None

    def oom_kills(self) -> int:
        """How many processes the kernel killed here for want of memory."""
        if self.oom_file is None:
            return 0
        found = re.search(r"^oom_kill (\d+)$", _read(self.oom_file), re.MULTILINE)
        return int(found[1]) if found else 0

    def remove(self) -> None:
        """Remove the group, if it is empty; one that is left is empty soon and costs nothing."""
        for folder in self.folders:
            with suppress(OSError):
                Path(folder).rmdir()


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlGroups:
    """Where groups can be made, controller by controller."""

    version: Literal[1, 2]
    parents: dict[Controller, str]
    """Folder to make groups in."""
    own: dict[Controller, str]
    """Folder that this process is in."""

    def make(self, limits: GroupLimits) -> Group:
        """Make a group with these limits; every controller that they name must be in `parents`."""
        name = f"labrunner-{os.getpid()}-{next(_numbers)}"
        needed = limits.controllers()
        folders = tuple(dict.fromkeys(f"{self.parents[controller]}/{name}" for controller in needed))
        made = []
        try:
            for folder in folders:
                Path(folder).mkdir()
                made.append(folder)
            for controller in needed:
                self._limit(controller, f"{self.parents[controller]}/{name}", limits)
        except OSError:
            for folder in made:
                Path(folder).rmdir()
            raise
        way_back = tuple(dict.fromkeys(self.own[controller] for controller in needed))
        return Group(folders=folders, way_back=way_back, oom_file=self._oom_file(name, needed))

    def _oom_file(self, name: str, needed: tuple[Controller, ...]) -> str | None:
        if "memory" not in needed:
            return None
        file = "memory.oom_control" if self.version == 1 else "memory.events"
        return f"{self.parents['memory']}/{name}/{file}"

    def _limit(self, controller: Controller, folder: str, limits: GroupLimits) -> None:
        for file, value in limit_files(self.version, controller, limits):
            with suppress(FileNotFoundError):  # swap accounting is optional; the others are checked by `find`
                _write(f"{folder}/{file}", value)


def limit_files(
    version: Literal[1, 2], controller: Controller, limits: GroupLimits
) -> tuple[tuple[str, str], ...]:
    """Which files hold a controller's limit, and what to write there."""
    quota = str(int((limits.cpus or 0) * CPU_PERIOD_US))
    memory = str(limits.memory_bytes)
    table: dict[tuple[int, Controller], tuple[tuple[str, str], ...]] = {
        (1, "memory"): (("memory.limit_in_bytes", memory), ("memory.memsw.limit_in_bytes", memory)),
        (1, "pids"): (("pids.max", str(limits.pids)),),
        (1, "cpu"): (("cpu.cfs_period_us", str(CPU_PERIOD_US)), ("cpu.cfs_quota_us", quota)),
        (2, "memory"): (("memory.max", memory), ("memory.swap.max", "0")),
        (2, "pids"): (("pids.max", str(limits.pids)),),
        (2, "cpu"): (("cpu.max", f"{quota} {CPU_PERIOD_US}"),),
    }
    return table[version, controller]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Mount:
    point: str
    root: str
    kind: str
    options: frozenset[str]


def parse_mounts(mountinfo: str) -> tuple[_Mount, ...]:
    """Find the cgroup mounts in the text of /proc/self/mountinfo."""
    mounts = []
    for line in mountinfo.splitlines():
        before, _, after = line.partition(" - ")
        fields, tail = before.split(), after.split()
        if len(fields) >= 5 and len(tail) >= 3 and tail[0] in {"cgroup", "cgroup2"}:
            options = frozenset(tail[2].split(","))
            mounts.append(_Mount(point=fields[4], root=fields[3], kind=tail[0], options=options))
    return tuple(mounts)


def parse_membership(cgroup: str) -> dict[str, str]:
    """Read /proc/self/cgroup: controller to path; the v2 tree has the empty name."""
    membership = {}
    for line in cgroup.splitlines():
        _, controllers, path = line.split(":", 2)
        for controller in controllers.split(","):
            membership[controller] = path
    return membership


def find(cgroup: str, mountinfo: str, prefix: str = "") -> ControlGroups | None:
    """Find where groups can be made; None where nowhere. `prefix` stands before every path, for tests."""
    membership, mounts = parse_membership(cgroup), parse_mounts(mountinfo)
    own = {
        controller: prefix + folder
        for controller in CONTROLLERS
        if (folder := _folder(controller, membership, mounts)) is not None
    }
    if own:
        parents = {controller: folder for controller, folder in own.items() if _is_writable(folder)}
        return ControlGroups(version=1, parents=parents, own=own) if parents else None
    return _find_v2(membership, mounts, prefix)


def _folder(controller: str, membership: dict[str, str], mounts: tuple[_Mount, ...]) -> str | None:
    for mount in mounts:
        if controller in mount.options and controller in membership:
            return _below(mount, membership[controller])
    return None


def _below(mount: _Mount, path: str) -> str | None:
    root = mount.root.rstrip("/")
    if not path.startswith(root):
        return None
    return (mount.point + path[len(root) :]).rstrip("/")


def _find_v2(membership: dict[str, str], mounts: tuple[_Mount, ...], prefix: str) -> ControlGroups | None:
    mount = next((mount for mount in mounts if mount.kind == "cgroup2"), None)
    here = None if mount is None or "" not in membership else _below(mount, membership[""])
    if mount is None or here is None:
        return None
    top, folder = Path(prefix + mount.point), Path(prefix + here)
    while folder != top.parent:
        offered = _read(folder / "cgroup.subtree_control").split()
        able = [controller for controller in CONTROLLERS if controller in offered]
        if able and _is_writable(folder) and _is_writable(folder / "cgroup.procs"):
            own = dict.fromkeys(able, prefix + here)
            return ControlGroups(version=2, parents=dict.fromkeys(able, str(folder)), own=own)
        folder = folder.parent
    return None


def _is_writable(path: str | Path) -> bool:
    return os.access(path, os.W_OK)


def _read(path: str | Path) -> str:
    try:
        return Path(path).read_text()
    except OSError:
        return ""


def _write(path: str, text: str) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(fd, text.encode())
    finally:
        os.close(fd)


@cache
def control_groups() -> ControlGroups | None:
    """What this machine offers this process. Proven by making a group, because permissions can mislead."""
    found = find(_read("/proc/self/cgroup"), _read("/proc/self/mountinfo"))
    if found is None:
        return None
    for folder in set(found.parents.values()):
        sweep(Path(folder))
    working = {controller: folder for controller, folder in found.parents.items() if _try(found, controller)}
    return ControlGroups(version=found.version, parents=working, own=found.own) if working else None


def sweep(parent: Path) -> None:
    """Remove groups of runners that were killed before anybody entered them; only empty ones can go."""
    for folder in parent.glob("labrunner-*"):
        owner = folder.name.split("-")[1]
        with suppress(OSError):
            is_old = time.time() - folder.stat().st_mtime > STALE_AFTER_S
            if is_old and not Path("/proc", owner).exists():
                folder.rmdir()


def _try(groups: ControlGroups, controller: Controller) -> bool:
    limits = {
        "memory": GroupLimits(memory_bytes=1 << 30),
        "pids": GroupLimits(pids=100),
        "cpu": GroupLimits(cpus=1),
    }[controller]
    try:
        group = groups.make(limits)
    except OSError:
        return False
    working = all(Path(folder, "cgroup.procs").exists() for folder in group.folders)
    group.remove()
    return working
