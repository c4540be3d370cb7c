"""What is checked before anything is spent: `lab doctor`, and the first thing that `lab run` does."""

import asyncio
import os
import resource
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final, Literal

from labrunner.executor.diskspace import check_disk
from labrunner.executor.door import Executor
from labrunner.experiment.options.table import find_option, flag
from labrunner.experiment.resolved import Experiment, SandboxPlan
from labrunner.experiment.sandbox_kinds import KINDS
from labrunner.files.filesystem import filesystem_problem, lock_problem
from labrunner.files.strangers.masking import SHORTEST
from labrunner.runner.upkeep.model_checks import check_models
from labrunner.sandbox.door import Check
from labrunner.sandbox.registry import find_kind

LEAST_FILES: Final = 192
"""Open files that one sandbox of processes takes, with whatever watches over it."""
OWN_FILES: Final = 96
NAMED: Final = 8
"""Nodes that a line names."""


async def examine(
    experiment: Experiment, executor: Executor, *, runs_dir: Path, secrets: Mapping[str, str], at_once: int
) -> tuple[Check, ...]:
    """Make every check for a run of this experiment into `runs_dir`, with so many trials at once."""
    files = tuple(check_files(experiment, at_once))
    checks = (
        *check_secrets(experiment, secrets),
        *check_models(experiment, secrets),
        *await asyncio.to_thread(_look_at_replay, experiment),
        *check_solutions(experiment),
        *check_place(runs_dir, experiment.policy.min_free_disk_gb),
        *files,
    )
    if any(check.severity == "error" for check in files):
        return checks  # sandboxes would fail for the same reason, and tell another
    return (*checks, *await executor.preflight())


def _look_at_replay(experiment: Experiment) -> tuple[Check, ...]:
    if experiment.policy.replay is None:
        return ()
    from labrunner.runner.upkeep.replay_checks import check_replay  # few runs replay

    return tuple(check_replay(experiment))


def check_files(experiment: Experiment, at_once: int) -> Iterator[Check]:
    """Tell of a limit of open files that trials will run into."""
    limit, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    each = max(_open_files(variant.sandbox) for variant in experiment.variants)
    wanted = max(LEAST_FILES, OWN_FILES + each * at_once)
    if limit == resource.RLIM_INFINITY or limit >= wanted:
        return
    told = f"this process may have {limit} files open, and {at_once} trials at once take up to {wanted}"
    remedy = f"ulimit -n {wanted}"
    if limit >= LEAST_FILES:
        remedy += f", or a lower {flag('max_concurrency')}"
    if most != resource.RLIM_INFINITY and most < wanted:
        remedy += f" (by root: this user may not go over {most})"
    is_enough = limit >= LEAST_FILES
    severity: Literal["error", "warning"] = "warning" if is_enough else "error"
    yield Check(name="open files", passed=False, severity=severity, message=f"{told}: {remedy}")


def _open_files(plan: SandboxPlan) -> int:
    """What one attempt takes; a maker of the caller's own may have a kind that nobody else knows."""
    return find_kind(plan.kind).open_files if KINDS.has(plan.kind) else 1


def check_secrets(experiment: Experiment, given: Mapping[str, str]) -> Iterator[Check]:
    """Every declared secret has a value."""
    names = experiment.secrets
    missing = [name for name in names if not given.get(name)]
    if missing:
        message = f"no value for {', '.join(missing)}: set them in the environment or in {flag('env_file')}"
        yield Check(name="secrets", passed=False, message=message)
    short = [name for name in names if 0 < len(given.get(name, "")) < SHORTEST]
    if short:
        message = f"{', '.join(short)}: shorter than {SHORTEST} characters, so not masked where it is printed"
        yield Check(name="secrets", passed=False, severity="warning", message=message)
    if names and not missing and not short:
        yield Check(name="secrets", passed=True, message=f"{', '.join(names)}: given")


def way_to(place: Path) -> tuple[Path, ...]:
    """A folder that may not be there yet, and those that it lies in."""
    whole = place.absolute()
    return (whole, *whole.parents)


def _dead_link(place: Path) -> str | None:
    dead = next((each for each in way_to(place) if each.is_symlink() and not each.exists()), None)
    return (
        None
        if dead is None
        else f"{dead} is a symbolic link that leads nowhere; choose another {flag('log_dir')}"
    )


def _place_problem(place: Path) -> str | None:
    """Why no folder can be made in what is there of a path; None when one can."""
    if not place.is_dir():
        return f"{place} is a file, so no run can lie in it; choose another {flag('log_dir')}"
    if not os.access(place, os.W_OK | os.X_OK):
        return f"{place} can't be written to by this user, or at all; choose another {flag('log_dir')}"
    return None


def check_solutions(experiment: Experiment) -> Iterator[Check]:
    """Say of solutions that nobody carries out how they are."""
    count = sum(task.solution is not None for task in experiment.tasks)
    if count and not any(variant.agent.runs_solution for variant in experiment.variants):
        told = f"{count:,} of {len(experiment.tasks):,} tasks have one, which no agent sees"
        oracle = find_option("agent").spell("oracle")
        yield Check(name="solution", passed=True, message=f"{told}; {oracle} carries them out")


def check_place(runs_dir: Path, wanted_gb: float) -> Iterator[Check]:
    """The run's directory can be trusted with locks and syncs, and has room."""
    place = next(folder for folder in way_to(runs_dir) if folder.exists())
    problem = (
        _dead_link(runs_dir) or _place_problem(place) or filesystem_problem(place) or lock_problem(place)
    )
    yield Check(name="storage", passed=problem is None, message=problem or f"{runs_dir}: a local file system")
    yield check_disk(place, wanted_gb, f"choose another {flag('log_dir')}")


def tell_name(check: Check) -> str:
    """What was checked, and where."""
    return f"{check.name} on {check.node}" if check.node else check.name


def name_nodes(nodes: Sequence[str]) -> str:
    """Names of nodes, as many as a line takes."""
    rest = f", … ({len(nodes):,} in all)" if len(nodes) > NAMED else ""
    return ", ".join(nodes[:NAMED]) + rest


def is_refusing(check: Check) -> bool:
    """Whether nothing may begin because of what was found."""
    return not check.passed and check.severity == "error"


def find_left_out(checks: Collection[Check]) -> tuple[str, ...]:
    """Nodes that a run begins without, for what fails there; none where no other node passes everything."""
    failing = dict.fromkeys(check.node for check in checks if check.node and is_refusing(check))
    is_any_well = any(check.passed and check.node and check.node not in failing for check in checks)
    return tuple(failing) if is_any_well else ()


def leave_out(checks: tuple[Check, ...]) -> tuple[Check, ...]:
    """The same checks with what fails on nodes that a run begins without as warnings."""
    left_out = find_left_out(checks)
    if not left_out:
        return checks
    every = {check.node for check in checks if check.node}
    told = f"{len(left_out)} of {len(every)} not used, for what fails there: {name_nodes(left_out)};"
    told += " each is tried again later"
    warned = (
        replace(check, severity="warning") if check.node in left_out and is_refusing(check) else check
        for check in checks
    )
    return (Check(name="nodes", passed=False, severity="warning", message=told), *warned)
