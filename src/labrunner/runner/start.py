"""Begins a sitting: check, then launch. Run, continue, retry, regrade, set and `eval()` go through here.

Rule: nothing is written for a run that can't start.
"""

import asyncio
import os
import platform
import resource
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from labrunner.errors import DamagedRun, InputError, InputErrors, OutOfFiles, SandboxFailed, StoreError
from labrunner.executor.door import PREFLIGHT, Executor, find_places
from labrunner.executor.registry import FindsExecutor, make_named_executor
from labrunner.experiment.resolved import Experiment
from labrunner.experiment.schedule import Schedule
from labrunner.files.leases import sharing
from labrunner.policy.pace import PACE, RunPace
from labrunner.runner.concurrency import concurrency_of
from labrunner.runner.leftovers.taking_up import resume
from labrunner.runner.newrun import Descent, create_new_run, make_record
from labrunner.runner.plan import Plan, never
from labrunner.runner.reports.advice import advice_on_damage
from labrunner.runner.rereading import Reread, reread_file
from labrunner.runner.reuse.carryover import CarryOver
from labrunner.runner.reuse.reuse import ReusePlan, SlotFinder
from labrunner.runner.sitting.sitting import RunEnd, Sitting, Watch
from labrunner.runner.sitting.stopping import signals_stop
from labrunner.runner.upkeep.cleaning import remove_spent_buffers
from labrunner.runner.upkeep.preflight import examine, is_refusing, leave_out, tell_name
from labrunner.sandbox import registry
from labrunner.sandbox.door import Check, SandboxMaker
from labrunner.store.layout import RunPaths
from labrunner.store.reading.earlier_file import read_earlier
from labrunner.store.reading.listing import address
from labrunner.store.rows.single_records import read_run
from labrunner.store.writing.writer import open_writer
from labrunner.trial.assignment import TrialContext

GRACE_S: Final = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """How a run is carried out on this machine."""

    runs_dir: Path
    secrets: Mapping[str, str]
    """Where values of declared secrets are looked up; only declared ones are used."""
    run_id: str | None = None
    grace_s: float = GRACE_S
    pace: RunPace = PACE
    """How long the run waits before it tries or looks again."""
    env_file: Path | None = None
    overrides: Mapping[str, object] = field(default_factory=dict)
    """What the command line changed about the experiment's file: kept, so that the file can be read again."""
    make: Callable[[str], SandboxMaker] = field(default_factory=registry.remember)
    keep_sandbox: bool = False
    """Whether sandboxes of trials that did not pass are left for a look."""
    on_checks: Callable[[tuple[Check, ...]], None] | None = None
    """Told what preflight found, also when all is well."""
    executors: FindsExecutor = make_named_executor
    """How who carries attempts out is found by the name that the policy has."""
    reread: Reread = reread_file
    """How the experiment of a run that lies there is resolved anew."""


def default_grace_s() -> float:
    """Seconds that trials in flight get when a run is stopped."""
    return 5.0 if os.environ.get("CI") else GRACE_S


@dataclass(frozen=True, slots=True, kw_only=True)
class Beginning:
    """What differs from one way to begin a sitting to another."""

    experiment: Experiment
    paths: RunPaths | None = None
    """The run, where there is one to go on with; else a new one is made."""
    descent: Descent = field(default_factory=Descent)
    """Where a new run comes from."""
    reuse: ReusePlan | None = None
    """What is taken over from other runs."""
    stand_in_front: Callable[[Executor, RunPaths], Executor] | None = None
    """Puts an executor in front of the one that runs agents."""
    refuse: Callable[[Sitting], None] | None = None
    """May refuse, when the run is ours and before anything is done."""
    drains_only: bool = False
    """Take up what an earlier sitting left, and start nothing new."""


async def run_experiment(experiment: Experiment, options: RunOptions, watch: Watch) -> RunEnd:
    """Run an experiment to its end."""
    await check(experiment, options)
    return await launch(Beginning(experiment=experiment), options, watch)


async def check(experiment: Experiment, options: RunOptions) -> None:
    """Refuse an experiment that can't be carried out here, before anything is written or spent.

    Of a cluster, one node that passes everything is enough.
    """
    checks = leave_out(await preflight(experiment, options))
    if options.on_checks is not None:
        options.on_checks(checks)
    refuse_failed(checks)


async def launch(beginning: Beginning, options: RunOptions, watch: Watch) -> RunEnd:
    """Make a run, or take the one that is there, and carry out what it owes."""
    paths = beginning.paths
    if paths is None:
        paths = await asyncio.to_thread(_make_run, beginning, options)
    plan = make_plan(beginning, paths, options)
    executor = make_executor(beginning.experiment, options, plan.run_id, paths.trial_folders)
    if find_places(executor) is not None:
        plan = replace(plan, has_places_elsewhere=True, concurrency=_bound(plan))
    if beginning.reuse is not None:
        from labrunner.runner.reuse.keptwork import judging  # for regrading

        executor = judging(beginning.reuse, executor, paths)
    if beginning.stand_in_front is not None:
        executor = beginning.stand_in_front(executor, paths)
    try:
        with sharing(_list_installed(beginning.experiment)):
            return await _sit_down(plan, executor, watch, beginning.refuse)
    except StoreError as error:
        error.add_note(_what_next(error, paths))
        raise
    except OSError as error:
        if not OutOfFiles.says(error):
            raise
        problem = OutOfFiles(f"carrying out {address(paths)}: too many open files")
        problem.add_note(_what_next(problem, paths))
        raise problem from error
    finally:
        await executor.close()


def _bound(plan: Plan) -> int:
    """How many places elsewhere may be taken: as many as there are, unless somebody asked for fewer."""
    asked = plan.experiment.policy.max_concurrency
    return max(1, len(plan.schedule)) if asked == "auto" else asked


async def _sit_down(
    plan: Plan, executor: Executor, watch: Watch, refuse: Callable[[Sitting], None] | None
) -> RunEnd:
    """Own a run and carry out what it still owes."""
    async with open_writer(plan.paths) as writer:
        sitting = Sitting(plan, writer, executor, await resume(plan, writer, executor))
        await sitting.recount()
        if refuse is not None:
            refuse(sitting)
        with signals_stop(sitting.stop, address(plan.paths)):
            end = await sitting.carry_out(watch)
        # Nothing is under way any more. What an engine made while it did not answer is known only to it.
        with suppress(SandboxFailed):
            await executor.reap(frozenset())
        return end


def _list_installed(experiment: Experiment) -> list[Path]:
    """Where agents by name are installed: nobody is to remove them meanwhile."""
    agents = [variant.agent for variant in experiment.variants]
    return [Path(agent.dir.path) for agent in agents if agent.named is not None and agent.dir is not None]


def _make_run(beginning: Beginning, options: RunOptions) -> RunPaths:
    record = make_record(
        beginning.experiment,
        run_id=options.run_id,
        env_file=options.env_file,
        overrides=options.overrides,
    )
    remove_spent_buffers(options.runs_dir, time.time())
    return create_new_run(options.runs_dir, beginning.experiment, record, beginning.descent)


def make_plan(beginning: Beginning, paths: RunPaths, options: RunOptions) -> Plan:
    """What is carried out in one sitting at a run that is there."""
    experiment, reuse, record = beginning.experiment, beginning.reuse, read_run(paths)
    finder = SlotFinder(experiment)
    return Plan(
        experiment=experiment,
        schedule=finder.schedule,
        run_id=record.run_id,
        paths=paths,
        concurrency=concurrency_of(experiment, len(finder.schedule)),
        grace_s=options.grace_s,
        pace=options.pace,
        carry_over=CarryOver(reuse, finder, paths, record.run_id) if reuse else None,
        is_reused=reuse.is_reused if reuse else never,
        keep_sandbox=options.keep_sandbox,
        earlier=read_earlier(paths, record),
        is_of_lineage=record.lineage_id != record.run_id,
        drains_only=beginning.drains_only,
    )


async def preflight(experiment: Experiment, options: RunOptions) -> tuple[Check, ...]:
    """Make every check for a run of this experiment."""
    executor = make_executor(experiment, options, PREFLIGHT, options.runs_dir)
    try:
        is_here = find_places(executor) is None
        at_once = concurrency_of(experiment, len(Schedule.of(experiment))) if is_here else 1
        return await examine(
            experiment, executor, runs_dir=options.runs_dir, secrets=options.secrets, at_once=at_once
        )
    finally:
        await executor.close()


def make_executor(experiment: Experiment, options: RunOptions, run_id: str, trials_dir: Path) -> Executor:
    """The executor that carries out this experiment's attempts."""
    context = TrialContext(
        experiment=experiment,
        run_id=run_id,
        trials_dir=Path(os.path.realpath(trials_dir)),  # also where a link leads in a circle
        host=platform.node(),
        secrets=options.secrets,
    )
    return options.executors(experiment.policy.executor.kind, context, options.make)


def refuse_failed(checks: tuple[Check, ...]) -> None:
    """Raise if a check that matters did not pass."""
    failed = [
        InputError("preflight", f"{tell_name(check)}: {check.message}")
        for check in checks
        if is_refusing(check)
    ]
    if failed:
        raise failed[0] if len(failed) == 1 else InputErrors(failed)


def _what_next(error: StoreError, paths: RunPaths) -> str:
    if isinstance(error, DamagedRun):
        return advice_on_damage(paths)
    if isinstance(error, OutOfFiles):
        now, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        told = f"what was finished is safe; allow more open files (ulimit -n, {now} now)"
        return f"{told} or fewer trials at once, then: lab continue {address(paths)}"
    return f"what was finished is safe; once the disk is well: lab continue {address(paths)}"
