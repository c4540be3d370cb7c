"""Which limits of a plan hold here, and what makes them hold: pure decisions.

A limit that the author asked for and that can't be enforced is refused at preflight, unless the plan
says `limits: best_effort`. Defaults are enforced where the host can; where it can't, the record says None.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass

from labrunner.experiment.resolved import SandboxPlan
from labrunner.sandbox.door import Check
from labrunner.sandbox.processes.cgroup import Controller, GroupLimits

MIB = 1024 * 1024
FSIZE_SLACK_MIB = 1
"""So that one file alone can grow over the disk limit, and the guard sees it."""
FILES_PER_MIB = 64
"""How many files go with each MiB of disk: one for 16 KiB, as disks are usually made for."""
LEAST_FILES = 10_000
CONTROLLER_OF: Mapping[str, Controller] = {"memory_mb": "memory", "pids": "pids", "cpus": "cpu"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """How much of the disk an attempt may hold."""

    bytes: int
    files: int

    @classmethod
    def of(cls, plan: SandboxPlan) -> "Share":
        """The share that `disk_mb` gives."""
        return cls(bytes=plan.disk_mb * MIB, files=max(LEAST_FILES, plan.disk_mb * FILES_PER_MIB))

    def plus(self, used: tuple[int, int]) -> "Share":
        """The same on top of what is there."""
        return Share(bytes=self.bytes + used[0], files=self.files + used[1])

    def holds(self, used: tuple[int, int]) -> bool:
        """Whether so many bytes and files are within it."""
        return used[0] <= self.bytes and used[1] <= self.files


@dataclass(frozen=True, slots=True, kw_only=True)
class Enforcement:
    """How the limits of one plan are enforced."""

    group: GroupLimits | None
    rlimits: Mapping[str, int]
    disk: Share
    limits: Mapping[str, float | int | str | bool | None]
    """As enforced, by name; None where one is not."""


def enforce(
    plan: SandboxPlan, available: frozenset[Controller], *, by_group: frozenset[str], overhead: int
) -> Enforcement:
    """Decide how to enforce a plan.

    `by_group` names the limits for which a control group is made where one can be; `overhead` is the
    number of processes of ours that count as the phase's.
    """
    grouped = {name for name in by_group if CONTROLLER_OF[name] in available}
    rlimits = {"RLIMIT_CORE": 0, "RLIMIT_FSIZE": (plan.disk_mb + FSIZE_SLACK_MIB) * MIB}
    return Enforcement(
        group=_group_limits(plan, grouped, overhead) if grouped else None,
        rlimits=rlimits,
        disk=Share.of(plan),
        limits={
            "cpus": plan.cpus if "cpus" in grouped else None,
            "memory_mb": plan.memory_mb if "memory_mb" in grouped else None,
            "pids": plan.pids if "pids" in grouped else None,
            "disk_mb": plan.disk_mb,
        },
    )


def _group_limits(plan: SandboxPlan, grouped: set[str], overhead: int) -> GroupLimits:
    return GroupLimits(
        memory_bytes=plan.memory_mb * MIB if "memory_mb" in grouped else None,
        pids=plan.pids + overhead if "pids" in grouped else None,
        # A quota above what the host has would only cost; one process can't use more than there is.
        cpus=min(plan.cpus, os.cpu_count() or 1) if "cpus" in grouped else None,
    )


def check_limits(plan: SandboxPlan, limits: Mapping[str, object], advice: str) -> tuple[Check, ...]:
    """Tell whether every limit that was asked for is enforced."""
    missing = [name for name in plan.asked if name in limits and limits[name] is None]
    if not missing:
        return (Check(name="limits", passed=True, message=describe(limits)),)
    names = ", ".join(f"{name}: {getattr(plan, name)}" for name in missing)
    tolerated = plan.limits == "best_effort"
    return (
        Check(
            name="limits",
            passed=False,
            severity="warning" if tolerated else "error",
            message=f"the experiment asks for {names}, which can't be enforced here: {advice}; "
            "run as root, let this user have control groups (systemd: Delegate=yes), "
            "or accept it with sandbox.limits: best_effort",
        ),
    )


def describe(limits: Mapping[str, object]) -> str:
    """Say which limits hold."""
    held = ", ".join(f"{name} {value}" for name, value in limits.items() if value is not None)
    loose = ", ".join(name for name, value in limits.items() if value is None)
    return f"enforced: {held or 'none'}" + (f"; not enforced here: {loose}" if loose else "")
