"""Going on with a run in place, after a crash, a stop or an error.

Rules: only the owner of the run goes on with it; the question that it answers must not have changed, its
policy may. What is committed stays, errors included; what was finished and buffered is committed; what
was under way is taken up where that can be done without running an agent twice, else it is owed.
"""

import asyncio
from dataclasses import replace
from pathlib import Path

from labrunner.errors import InputError, InputErrors
from labrunner.experiment.options.layers import read_overrides
from labrunner.experiment.options.overrides import Overrides
from labrunner.experiment.options.table import find_option, flag
from labrunner.experiment.resolved import Experiment
from labrunner.experiment.resolving.hazards import refuse_unheeded_options
from labrunner.experiment.revising.changes import changes
from labrunner.experiment.revising.new_policy import change_policy
from labrunner.records.run import RunRecord
from labrunner.runner.reports.advice import advise_on_damage
from labrunner.runner.reports.recorded import read_experiment
from labrunner.runner.reports.summaries import is_summary_whole
from labrunner.runner.rereading import Reread, refuse_gone, reread_file, resolve_again
from labrunner.runner.reuse.reuse import ReusePlan, open_sources, plan_reuse
from labrunner.runner.sitting.sitting import RunEnd, Sitting, Watch
from labrunner.runner.start import Beginning, RunOptions, check, launch
from labrunner.store.layout import RunPaths
from labrunner.store.opening.opening import refuse_damaged
from labrunner.store.reading.listing import address, list_runs
from labrunner.store.reading.run_state import read_state
from labrunner.store.rows.lock import refuse_owned
from labrunner.store.rows.single_records import read_run


def find_unfinished(runs_dir: Path) -> list[RunPaths]:
    """Runs that can go on, the newest first: crashed, cancelled, or ended by an error.

    Not reports, which can't, and not runs that a newer one of their lineage took over: that one is to go on.
    """
    found: list[RunPaths] = []
    taken_over: set[str] = set()
    for run in list_runs(runs_dir):
        if run.state == "unreadable" or run.is_report:
            continue
        if run.state in {"crashed", "cancelled", "error"} and run.lineage_id not in taken_over:
            found.append(run.paths)
        taken_over.add(run.lineage_id)
    return found


async def continue_run(paths: RunPaths, options: RunOptions, asked: Overrides, watch: Watch) -> RunEnd | None:
    """Go on with a run; None when there is nothing left to do. `asked` may change policy alone."""
    record = read_run(paths)
    if read_state(paths) == "success":
        with advise_on_damage(paths):
            await asyncio.to_thread(refuse_damaged, paths)
        if is_summary_whole(paths, record.run_id):
            return None
    await asyncio.to_thread(refuse_owned, paths)
    refuse_regrade(record, paths)
    if record.recovered_from is not None:
        raise InputError(
            str(paths.root),
            f"was made from {record.recovered_from} without running agents, so it can't be continued; "
            f"to run what it lacks: lab retry {address(paths)}",
        )
    experiment = read_experiment(paths)
    now = refuse_changed(experiment, record, paths, options.reread)
    _refuse_replay(experiment, asked, paths)
    experiment = replace(reach_as(experiment, now), policy=change_policy(experiment.policy, asked))
    refuse_unheeded_options(asked, experiment.policy.executor.kind)
    await check(experiment, options)
    reuse = plan_reuse_again(experiment, record, paths) if record.retry_of else None

    def refuse(sitting: Sitting) -> None:
        refuse_replaced(record, paths)
        _refuse_over_threshold(sitting, asked, paths)

    beginning = Beginning(experiment=experiment, paths=paths, reuse=reuse, refuse=refuse)
    return await launch(beginning, options, watch)


def _refuse_replay(experiment: Experiment, asked: Overrides, paths: RunPaths) -> None:
    """Refuse to make a run half a replay: what it began as stays what it is."""
    known = (None, experiment.policy.replay, str(paths.root.resolve()))
    if asked.replay not in known:
        raise InputError(
            flag("replay"),
            f"{paths.root.name} did not begin as a replay of {asked.replay}; it can reuse what its own "
            f"attempts heard before they were cut off: {flag('replay')} {address(paths)} "
            f"{flag('replay_mode')} reuse",
        )


def plan_reuse_again(experiment: Experiment, record: RunRecord, paths: RunPaths) -> ReusePlan:
    """Plan what a retry takes over, as it was planned when it began."""
    sources = open_sources(find_sources(record, paths))
    return plan_reuse(experiment, sources, edited=record.vouched is not None)


def find_sources(record: RunRecord, paths: RunPaths) -> list[RunPaths]:
    """The runs that a retry takes over from, where they lie now; those that are gone are left out."""
    places = [(Path(text), paths.root.parent / Path(text).name) for text in record.retry_of]
    found = [next((place for place in pair if place.is_dir()), None) for pair in places]
    return [RunPaths(place) for place in found if place is not None]


def refuse_regrade(record: RunRecord, paths: RunPaths) -> None:
    """Refuse to go on with a regrading in place: it is begun anew."""
    if record.is_regrade and record.recovered_from is not None:
        source = address(RunPaths(Path(record.recovered_from)))
        raise InputError(
            str(paths.root),
            f"only judges the work of another run's agents; to judge it once more: lab regrade {source}; "
            f"to take its verdicts over and run what it lacks: lab retry {address(paths)}",
        )


def refuse_changed(
    experiment: Experiment, record: RunRecord, paths: RunPaths, reread: Reread = reread_file
) -> Experiment:
    """Refuse to go on when the experiment's file, or a folder that it names, is no longer what was run.

    Gives the experiment as it is written now: the same, but for what is not measured.
    """
    source = experiment.source
    if source:
        refuse_gone(source, record)
    try:
        now = resolve_again(record, read_overrides(record.overrides), reread)
    except (InputError, InputErrors) as error:
        raise InputError(
            source, f"run {record.run_id} came from this file, which can't be read any more:\n{error}"
        ) from error
    if changed := changes(experiment, now):
        told = "; ".join(changed)
        raise InputError(
            source,
            f"the experiment is not the one that run {record.run_id} began: {told}; "
            f"undo that, or run what changed anew with: lab retry {address(paths)}",
        )
    return now


def reach_as(experiment: Experiment, now: Experiment) -> Experiment:
    """The experiment with its models where they are now: addresses, keys and prices are not measured."""
    models = {variant.id: variant.models for variant in now.variants}
    variants = tuple(replace(each, models=models.get(each.id, each.models)) for each in experiment.variants)
    return replace(experiment, variants=variants)


def refuse_replaced(record: RunRecord, paths: RunPaths) -> None:
    """Refuse what another command put in the run's place before it was ours."""
    if read_run(paths) != record:
        raise InputError(
            str(paths.root), f"was replaced while it was being opened; look again: lab show {address(paths)}"
        )


def _refuse_over_threshold(sitting: Sitting, asked: Overrides, paths: RunPaths) -> None:
    if sitting.is_over_threshold() and asked.continue_on_fail is None:
        tolerant = find_option("fail_on_error").spell("X")
        raise InputError(
            str(paths.root),
            f"trials with errors: {sitting.errors}, more than fail_on_error tolerates, and committed "
            f"errors stay; tolerate more with {tolerant}, or run the failed ones anew: "
            f"lab retry {address(paths)}",
        )
