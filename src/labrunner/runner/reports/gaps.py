"""Slots without a result, as rows: what a recovered report has for them, and what logs show of them.

Rule: such a trial is `cancelled`, has no attempts, and names the folders of those that were cut off.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

from labrunner.experiment.digests import digest_tried
from labrunner.experiment.resolved import Experiment
from labrunner.experiment.schedule import Schedule, Slot
from labrunner.records.encoding.ids import Ids, make_trial_id
from labrunner.records.rows import SlotRows, TimingRow, TrialRow, slot_commit_id
from labrunner.store.buffering.transcripts import LiveTranscripts, read_transcripts
from labrunner.store.layout import RunPaths
from labrunner.store.reading.run_state import iter_trials, read_state


def make_gap(experiment: Experiment, slot: Slot, run_id: str, *, cut_off: tuple[str, ...] = ()) -> SlotRows:
    """Rows for a slot that was never finished; `cut_off` names folders of its attempts."""
    task, variant = experiment.tasks[slot.task_idx], experiment.variants[slot.variant_idx]
    trial_id = slot_trial_id(experiment, slot)
    ids = Ids(
        run_id=run_id, trial_id=trial_id, variant_id=variant.id, task_id=task.id, repl_idx=slot.repl_idx
    )
    commit_id = slot_commit_id(experiment.digest, trial_id, 1)
    trial = TrialRow(
        schema_version="trial_record_v1",
        schedule_idx=slot.schedule_idx,
        slot_commit_id=commit_id,
        attempt=1,
        ids=ids,
        task_digest=task.digest,
        variant_digest=digest_tried(variant, task),
        outcome="cancelled",
        verdict=None,
        primary_metric_name=None,
        primary_metric_value=None,
        cause=None,
        reason=None,
        ended_by=None,
        flags=(),
        barrier="none",
        attempts=(),
        files=(),
    )
    timing = TimingRow(
        schema_version="trial_timing_v1",
        schedule_idx=slot.schedule_idx,
        ids=ids,
        attempts=(),
        cut_off=cut_off,
    )
    return SlotRows(
        schedule_idx=slot.schedule_idx,
        trial_id=trial_id,
        attempt=1,
        slot_commit_id=commit_id,
        predictions=(),
        scores=(),
        trial=trial,
        timing=timing,
    )


def slot_trial_id(experiment: Experiment, slot: Slot) -> str:
    """What a slot's trial is called."""
    task, variant = experiment.tasks[slot.task_idx], experiment.variants[slot.variant_idx]
    return make_trial_id(variant.id, task.id, slot.repl_idx)


def attempts_left(trial: Path) -> tuple[str, ...]:
    """Folders of a trial that never ended: attempts under way at the end, and those cut off before."""
    return tuple(sorted(_names(trial)))


def newest_attempt(cut_off: Sequence[str]) -> str | None:
    """The folder of the last of several attempts; one that was set aside came before its successor."""
    return max(cut_off, key=_age, default=None)


def _age(folder: str) -> tuple[int, bool, int]:
    number, _, cut = folder.partition(".cut-")
    return (int(number) if number.isdecimal() else 0, not cut, int(cut) if cut.isdecimal() else 0)


def read_gaps(paths: RunPaths, experiment: Experiment, run_id: str) -> tuple[list[SlotRows], LiveTranscripts]:
    """Trials that were under way when a run ended, in schedule order, and what no file holds of them yet.

    None of a run that goes on.
    """
    if read_state(paths) in {"success", "started"}:
        return [], {}
    live = read_transcripts(paths.buffer)
    left = {*live, *_names(paths.trial_folders)}.difference(row.ids.trial_id for row in iter_trials(paths))
    return (list(_find(paths, experiment, run_id, live, left)) if left else []), live


def _find(
    paths: RunPaths, experiment: Experiment, run_id: str, live: LiveTranscripts, left: set[str]
) -> Iterator[SlotRows]:
    for slot in Schedule.of(experiment):
        trial_id = slot_trial_id(experiment, slot)
        if trial_id not in left:
            continue
        attempts = (*attempts_left(paths.trial(trial_id)), *map(str, live.get(trial_id, ())))
        if attempts:
            yield make_gap(experiment, slot, run_id, cut_off=tuple(dict.fromkeys(attempts)))


def _names(folder: Path) -> list[str]:
    try:
        return [entry.name for entry in folder.iterdir()]
    except FileNotFoundError:
        return []
