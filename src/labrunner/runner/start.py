"""Runs an experiment: preflight, a new run directory, and a session that carries it out.

Rule: nothing is written for a run that can't start.
"""

import asyncio
import os
import platform
import re
import resource
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from labrunner.errors import DamagedRun, InputError, InputErrors, OutOfFiles, SandboxFailed, StoreError
from labrunner.executor.door import Executor
from labrunner.executor.local import LocalExecutor
from labrunner.experiment import codec
from labrunner.experiment.addresses import hide_credentials
from labrunner.experiment.resolved import Experiment
from labrunner.experiment.schedule import Schedule
from labrunner.policy.capacity import Host, decide_concurrency
from labrunner.records.encoding import canonical
from labrunner.records.encoding.canonical import stamp
from labrunner.records.encoding.ids import RUN_ID_PATTERN, make_run_id
from labrunner.records.run import Digests, RunRecord
from labrunner.runner.leftovers.look import resume
from labrunner.runner.plan import Plan, never
from labrunner.runner.reports.advice import advice_on_damage
from labrunner.runner.rereading import Reread, reread_file
from labrunner.runner.reuse.carryover import CarryOver
from labrunner.runner.reuse.reuse import ReusePlan, SlotFinder
from labrunner.runner.sitting.sitting import RunEnd, Sitting, Watch
from labrunner.runner.sitting.stopping import signals_stop
from labrunner.runner.upkeep import provenance
from labrunner.runner.upkeep.cleaning import remove_spent_buffers
from labrunner.runner.upkeep.preflight import examine
from labrunner.sandbox import registry
from labrunner.sandbox.door import Check, SandboxMaker
from labrunner.store.layout import RunPaths
from labrunner.store.reading.earlier_file import read_earlier
from labrunner.store.reading.listing import address
from labrunner.store.rows.single_records import read_run
from labrunner.store.writing.create import create_run
from labrunner.store.writing.writer import open_writer
from labrunner.trial.assignment import TrialContext

BLOCKING_THREADS: Final = 32
"""Preparing and collecting are disk work: more of it at once than there are cores."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """How a run is carried out on this machine."""

    runs_dir: Path
    secrets: Mapping[str, str]
    """Where values of declared secrets are looked up; only declared ones are used."""
    run_id: str | None = None
    grace_s: float = 30.0
    env_file: Path | None = None
    overrides: Mapping[str, object] = field(default_factory=dict)
    """What the command line changed about the experiment's file: kept, so that the file can be read again."""
    make: Callable[[str], SandboxMaker] = field(default_factory=registry.remember)
    keep_sandbox: bool = False
    """Whether sandboxes of trials that did not pass are left for a look."""
    on_checks: Callable[[tuple[Check, ...]], None] | None = None
    """Told what preflight found, also when all is well."""
    executor: Callable[[TrialContext, Callable[[str], SandboxMaker]], Executor] = LocalExecutor
    """Who carries attempts out."""
    reread: Reread = reread_file
    """How the experiment of a run that lies there is resolved anew."""


def default_grace_s() -> float:
    """Seconds that trials in flight get when a run is stopped."""
    return 5.0 if os.environ.get("CI") else 30.0


async def preflight(experiment: Experiment, options: RunOptions) -> tuple[Check, ...]:
    """Make every check for a run of this experiment."""
    executor = make_executor(experiment, options, "preflight", options.runs_dir)
    try:
        at_once = concurrency_of(experiment, len(Schedule.of(experiment)))
        return await examine(
            experiment, executor, runs_dir=options.runs_dir, secrets=options.secrets, at_once=at_once
        )
    finally:
        await executor.close()


async def run_experiment(experiment: Experiment, options: RunOptions, watch: Watch) -> RunEnd:
    """Run an experiment to its end."""
    checks = await preflight(experiment, options)
    if options.on_checks is not None:
        options.on_checks(checks)
    refuse_failed(checks)
    record = make_record(experiment, options)
    schedule = Schedule.of(experiment)
    await asyncio.to_thread(remove_spent_buffers, options.runs_dir, time.time())
    paths = create_run(options.runs_dir, record, codec.task_lines(experiment), schedule.lines(experiment))
    plan = make_plan(experiment, paths, options, run_id=record.run_id)
    executor = make_executor(experiment, options, record.run_id, paths.trial_folders)
    return await sit_down(plan, paths, executor, watch)


def make_plan(
    experiment: Experiment,
    paths: RunPaths,
    options: RunOptions,
    *,
    run_id: str,
    reuse: ReusePlan | None = None,
) -> Plan:
    """What is carried out in one sitting; `reuse` says what is taken over from other runs."""
    finder, record = SlotFinder(experiment), read_run(paths)
    return Plan(
        experiment=experiment,
        schedule=finder.schedule,
        run_id=run_id,
        paths=paths,
        concurrency=concurrency_of(experiment, len(finder.schedule)),
        grace_s=options.grace_s,
        carry_over=CarryOver(reuse, finder, paths, run_id) if reuse else None,
        is_reused=reuse.is_reused if reuse else never,
        keep_sandbox=options.keep_sandbox,
        earlier=read_earlier(paths, record),
        is_of_lineage=record.lineage_id != record.run_id,
    )


async def sit_down(
    plan: Plan,
    paths: RunPaths,
    executor: Executor,
    watch: Watch,
    *,
    begin: Callable[[Sitting], None] | None = None,
) -> RunEnd:
    """Own a run and carry out what it still owes; `begin` may refuse before anything is done."""
    pool = ThreadPoolExecutor(BLOCKING_THREADS, thread_name_prefix="lab-blocking")
    asyncio.get_running_loop().set_default_executor(pool)
    try:
        async with open_writer(paths) as writer:
            session = Sitting(plan, writer, executor, await resume(plan, writer, executor))
            if begin is not None:
                begin(session)
            with signals_stop(session.stop, address(paths)):
                end = await session.carry_out(watch)
            # Nothing is under way any more. What an engine made while it did not answer is known only to it.
            with suppress(SandboxFailed):
                await executor.reap(frozenset())
            return end
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


def _what_next(error: StoreError, paths: RunPaths) -> str:
    if isinstance(error, DamagedRun):
        return advice_on_damage(paths)
    if isinstance(error, OutOfFiles):
        now, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        told = f"what was finished is safe; allow more open files (ulimit -n, {now} now)"
        return f"{told} or fewer trials at once, then: lab continue {address(paths)}"
    return f"what was finished is safe; once the disk is well: lab continue {address(paths)}"


def make_executor(experiment: Experiment, options: RunOptions, run_id: str, trials_dir: Path) -> Executor:
    """The executor that carries out this experiment's attempts."""
    context = TrialContext(
        experiment=experiment,
        run_id=run_id,
        trials_dir=Path(os.path.realpath(trials_dir)),  # also where a link leads in a circle
        host=platform.node(),
        secrets=options.secrets,
    )
    return options.executor(context, options.make)


def refuse_failed(checks: tuple[Check, ...]) -> None:
    """Raise if a check that matters did not pass."""
    failed = [
        InputError("preflight", f"{check.name}: {check.message}")
        for check in checks
        if not check.passed and check.severity == "error"
    ]
    if failed:
        raise failed[0] if len(failed) == 1 else InputErrors(failed)


def make_record(experiment: Experiment, options: RunOptions) -> RunRecord:
    """Make `run.json` for a new run."""
    now = datetime.now(UTC)
    run_id = options.run_id or make_run_id(experiment.name, now)
    if not re.match(RUN_ID_PATTERN, run_id):
        raise InputError("--run-id", f"{run_id!r} can't name a run: use letters, digits and . _ = , + -")
    schedule = Schedule.of(experiment)
    return RunRecord(
        schema_version="run_v1",
        run_id=run_id,
        lineage_id=run_id,
        name=experiment.name,
        created_at=stamp(now),
        tags=experiment.tags,
        planned=len(schedule),
        digests=Digests(
            experiment=experiment.digest,
            schedule=canonical.digest_stream(schedule.lines(experiment)),
            tasks=canonical.digest_stream(codec.task_lines(experiment)),
        ),
        experiment=codec.to_record(experiment),
        provenance=provenance.observe(Path(experiment.source)),
        env_file=str(options.env_file.resolve()) if options.env_file else None,
        overrides=_recorded(options.overrides),
    )


def _recorded(overrides: Mapping[str, object]) -> dict[str, object]:
    """Overrides as they are kept: without the credentials of the provider's address."""
    address = overrides.get("model_base_url")
    hidden = {"model_base_url": hide_credentials(address)} if isinstance(address, str) else {}
    return {**overrides, **hidden}


def concurrency_of(experiment: Experiment, planned: int) -> int:
    """How many trials run at once."""
    asked = experiment.policy.max_concurrency
    if asked != "auto":
        return asked
    plans = [variant.sandbox for variant in experiment.variants]
    # A default of two cores is a ceiling for a trial, not what every trial is expected to use.
    cpus = max(plan.cpus if "cpus" in plan.asked else 1.0 for plan in plans)
    return decide_concurrency(
        _host(), cpus=cpus, memory_mb=max(plan.memory_mb for plan in plans), planned=planned
    )


def _host() -> Host:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return Host(cpus=len(os.sched_getaffinity(0)), memory_mb=memory // 2**20)
