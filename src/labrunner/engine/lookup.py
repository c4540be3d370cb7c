"""Looking at a run that somebody else wrote: its experiment, its summary, one of its trials."""

from dataclasses import dataclass

from labrunner.engine.results import Results, read_results
from labrunner.engine.summaries import read_summary
from labrunner.errors import InputError
from labrunner.experiment import codec
from labrunner.experiment.model import Experiment
from labrunner.records.rows import SlotRows
from labrunner.records.run import RunRecord, StatusRecord
from labrunner.records.summary import SummaryRecord
from labrunner.store.layout import RunPaths
from labrunner.store.reading import RunState, iter_finished, read_state
from labrunner.store.record import read_run, read_status


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPicture:
    """A run as it stands now, buffered results included."""

    paths: RunPaths
    record: RunRecord
    state: RunState
    status: StatusRecord
    summary: SummaryRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class RunInFull(RunPicture):
    """A run with what its summary was made from."""

    results: Results


def read_experiment(paths: RunPaths) -> Experiment:
    """The experiment that a run carries out, as it recorded it."""
    record = read_run(paths)
    with paths.tasks.open("rb") as lines:
        return codec.from_record(record.experiment, lines)


def picture(paths: RunPaths) -> RunPicture:
    """Look at a run, live or dead. Its summary is taken as written while it holds; nothing is written."""
    summary = read_summary(paths)
    if summary is None:
        return read_in_full(paths)
    return RunPicture(
        paths=paths,
        record=read_run(paths),
        state=read_state(paths),
        status=_read_status(paths),
        summary=summary,
    )


def read_in_full(paths: RunPaths) -> RunInFull:
    """Look at a run and compute everything from its rows."""
    record, state, status = read_run(paths), read_state(paths), _read_status(paths)
    results = read_results(paths, record)
    return RunInFull(
        paths=paths,
        record=record,
        state=state,
        status=status,
        results=results,
        summary=results.summarise(),
    )


def _read_status(paths: RunPaths) -> StatusRecord:
    status = read_status(paths)
    if status is None:
        raise InputError(str(paths.root), "the run has no readable status.json; try: lab verify")
    return status


def find_trial(paths: RunPaths, text: str) -> SlotRows:
    """Find a finished trial by its id, a unique part of it, or its position in the schedule."""
    matches: list[SlotRows] = []
    for rows in iter_finished(paths):
        if rows.trial_id == text or str(rows.schedule_idx) == text:
            return rows
        if text in rows.trial_id:
            matches.append(rows)
    if len(matches) == 1:
        return matches[0]
    if not matches:
        raise InputError("TRIAL", f"no finished trial of this run is called {text!r}, nor has it in its name")
    named = ", ".join(rows.trial_id for rows in matches[:5])
    raise InputError("TRIAL", f"{len(matches)} trials have {text!r} in their name: {named}…; be more exact")
