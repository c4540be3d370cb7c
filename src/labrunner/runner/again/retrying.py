"""Retrying a run: a new run with the same lineage that takes over what was good and runs the rest."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from labrunner.errors import InputError, RunLocked, StoreError
from labrunner.experiment.options.layers import (
    merge_overrides,
    read_overrides,
    record_overrides,
    refuse_python,
)
from labrunner.experiment.options.overrides import Overrides
from labrunner.experiment.resolved import Experiment
from labrunner.experiment.resolving.hazards import refuse_unheeded_options
from labrunner.experiment.revising.changes import changes
from labrunner.records.run import RunRecord
from labrunner.runner.newrun import Descent
from labrunner.runner.reports.advice import advise_on_damage
from labrunner.runner.reports.recorded import read_experiment
from labrunner.runner.rereading import Reread, reread_file, resolve_again
from labrunner.runner.reuse.history import encode_earlier, gather_history
from labrunner.runner.reuse.reuse import ReusePlan, open_sources, plan_reuse
from labrunner.runner.sitting.sitting import RunEnd, Watch
from labrunner.runner.start import Beginning, RunOptions, check, launch
from labrunner.store.layout import RunPaths
from labrunner.store.reading.listing import address, list_runs
from labrunner.store.reading.run_state import read_state
from labrunner.store.rows.single_records import read_run


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPlan:
    """What a retry is going to do: shown before anything is spent."""

    experiment: Experiment
    lineage_id: str
    retry_of: tuple[str, ...]
    reuse: ReusePlan
    changed: tuple[str, ...] = ()
    """What of the measured question is not as in the run that is retried, in sentences."""
    overrides: Overrides | None = None
    """Options of the run that is retried, with those of the retry; None for those of a new lineage."""


def plan_retry(
    paths: RunPaths,
    overrides: Overrides | None = None,
    reread: Reread = reread_file,
    *,
    edited: bool = False,
) -> RetryPlan:
    """Plan the retry of a run, over the whole chain of its lineage; `edited`: edits are vouched for."""
    if read_state(paths) == "started":
        raise RunLocked(f"{paths.root.name} is running; stop it first, or wait for its end")
    record = read_run(paths)
    _refuse_repeated(record, paths)
    kept = read_overrides(record.overrides)
    options = kept if overrides is None else merge_overrides(kept, overrides)
    experiment = resolve_again(record, options, reread)
    if overrides is not None:
        refuse_unheeded_options(overrides, experiment.policy.executor.kind)
        if experiment.variants[0].program is None:
            refuse_python(overrides, experiment.source or experiment.name)
    chain = lineage(paths, record.lineage_id)
    with advise_on_damage(paths):
        reuse = plan_reuse(experiment, open_sources(chain), edited=edited)
        for number, damage in reuse.unusable.items():
            if chain[number].root.samefile(paths.root):
                raise damage
    return RetryPlan(
        experiment=experiment,
        lineage_id=record.lineage_id,
        retry_of=tuple(str(run.root.resolve()) for run in chain),
        reuse=reuse,
        changed=changes_since(paths, experiment),
        overrides=options,
    )


def _refuse_repeated(record: RunRecord, paths: RunPaths) -> None:
    """Refuse a regrading that judged each trial several times: several verdicts are no result."""
    if record.graded_times > 1:
        raise InputError(
            str(paths.root),
            f"judged each trial {record.graded_times} times, to see how steady verdicts are; "
            f"to run what failed: lab retry {address(RunPaths(Path(record.recovered_from or '')))}",
        )


def changes_since(paths: RunPaths, now: Experiment) -> tuple[str, ...]:
    """What of the measured question is not as it was in a run, in sentences."""
    return () if read_run(paths).digests.experiment == now.digest else changes(read_experiment(paths), now)


def plan_reuse_of(experiment: Experiment, runs: Sequence[RunPaths], *, edited: bool = False) -> RetryPlan:
    """Plan a new run of its own lineage that takes over what others have."""
    reuse = plan_reuse(experiment, open_sources(runs), edited=edited)
    return RetryPlan(
        experiment=experiment,
        lineage_id="",
        retry_of=tuple(str(run.root.resolve()) for run in runs),
        reuse=reuse,
        changed=_changes_since_newest(runs, experiment),
    )


def _changes_since_newest(runs: Sequence[RunPaths], now: Experiment) -> tuple[str, ...]:
    """The same for the newest of several runs that is one of this experiment and sound."""
    for run in runs:
        with suppress(StoreError):  # whoever takes results from it says what is wrong with it
            if read_run(run).name == now.name:
                return changes_since(run, now)
    return ()


def find_readable(runs_dir: Path) -> list[RunPaths]:
    """All runs of a directory with results that can be read, the newest first; none is fine."""
    return [run.paths for run in list_runs(runs_dir) if run.state != "unreadable" and run.graded_times == 1]


def lineage(paths: RunPaths, lineage_id: str) -> list[RunPaths]:
    """All runs beside this one with the same lineage, the newest first; this one always among them."""
    beside = [
        run.paths
        for run in list_runs(paths.root.parent)
        if run.state != "unreadable" and run.lineage_id == lineage_id and run.graded_times == 1
    ]
    return beside if any(run.root.samefile(paths.root) for run in beside) else [paths, *beside]


async def carry_out_retry(
    retry: RetryPlan, options: RunOptions, watch: Watch, *, on_plan: Callable[[RetryPlan], None]
) -> RunEnd:
    """Carry out a planned retry."""
    on_plan(retry)
    await check(retry.experiment, options)
    if retry.overrides is not None:
        options = replace(options, overrides=record_overrides(retry.overrides))
    descent = Descent(
        lineage_id=retry.lineage_id,
        retry_of=retry.retry_of,
        vouched=retry.reuse.vouched,
        tell_earlier=partial(_tell_earlier, retry),
    )
    beginning = Beginning(experiment=retry.experiment, descent=descent, reuse=retry.reuse)
    return await launch(beginning, options, watch)


def _tell_earlier(retry: RetryPlan, run_id: str) -> list[bytes]:
    """What the runs before did, as lines; nothing for a run that begins a lineage of its own."""
    if not retry.lineage_id:
        return []
    return encode_earlier(gather_history(retry.experiment, retry.reuse, run_id))
