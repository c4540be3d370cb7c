"""Logs: runs as Python users read them. A log is a view of a run's directory, read as it is asked for."""

import heapq
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, overload

from labrunner.experiment.resolved import Experiment, Program
from labrunner.records.rows import SlotRows
from labrunner.records.run import RunRecord, RunStatus
from labrunner.runner.reports.gaps import read_gaps
from labrunner.runner.reports.recorded import read_experiment
from labrunner.solve.logs.logsample import EvalSample
from labrunner.solve.origin import read_program
from labrunner.solve.scoring.totals import EvalResults, compute_results
from labrunner.solve.values.score import Metric
from labrunner.store.buffering.transcripts import LiveTranscripts
from labrunner.store.layout import RunPaths
from labrunner.store.reading.earlier_file import read_earlier
from labrunner.store.reading.run_state import iter_finished
from labrunner.store.rows.single_records import read_run, read_status


@dataclass(frozen=True, slots=True, kw_only=True)
class EvalSpec:
    """What was run."""

    task: str
    task_id: str
    """The same over all retries of a run."""
    run_id: str
    created: str
    task_file: str | None
    task_args: Mapping[str, Any]  # any JSON: the author's own
    model: str | None
    model_base_url: str | None
    model_config: Mapping[str, Any]  # any JSON: settings that shape answers
    limits: Mapping[str, Any]
    epochs: int
    tags: tuple[str, ...]
    metadata: Mapping[str, Any]  # any JSON: the author's own
    digest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EvalError:
    """What ended a run that did not succeed."""

    message: str
    cause: str | None = None
    trial_id: str | None = None


class EvalLog:
    """A run, as it stood when the log was read."""

    def __init__(self, location: str | Path, metrics: Mapping[str, Sequence[Metric]] | None = None) -> None:
        """Read the head of a run; `metrics` are the scorers' own, where their code is at hand."""
        self._paths = RunPaths(Path(location))
        self._record = read_run(self._paths)
        self._metrics = metrics or {}
        status = read_status(self._paths)
        self.status: RunStatus = status.status if status is not None else "started"
        """`started`, `success`, `error` or `cancelled`; a run that crashed says `started`."""
        error = status.error if status is not None else None
        self.error = (
            EvalError(message=error.message, cause=error.cause, trial_id=error.trial_id) if error else None
        )

    @property
    def location(self) -> str:
        """The run's directory."""
        return str(self._paths.root)

    @cached_property
    def eval(self) -> EvalSpec:
        """What was run."""
        return make_spec(self._record)

    @cached_property
    def experiment(self) -> Experiment:
        """The resolved experiment."""
        return read_experiment(self._paths)

    @cached_property
    def results(self) -> EvalResults:
        """What the finished samples add up to."""
        return compute_results(self._paths, self.experiment, self._metrics)

    @cached_property
    def samples(self) -> "EvalSamples":
        """The samples, in the order of the schedule, read as they are asked for.

        Those that are finished; of a run that ended early also those that were under way then.
        """
        return EvalSamples(self._paths, self.experiment)

    def __repr__(self) -> str:
        """Status and place."""
        return f"EvalLog(status={self.status!r}, task={self._record.name!r}, location={self.location!r})"


class EvalSamples(Sequence[EvalSample]):
    """A run's samples. Nothing is kept in memory but where a walk stands, and what was cut off."""

    def __init__(self, paths: RunPaths, experiment: Experiment) -> None:
        """Take the run."""
        self._paths = paths
        self._experiment = experiment
        self._tasks = {task.id: task for task in experiment.tasks}
        self._earlier = read_earlier(paths, read_run(paths))

    def __iter__(self) -> Iterator[EvalSample]:
        """Walk through them."""
        every, live = self._rows()
        for rows in every:
            yield EvalSample(
                rows=rows,
                task=self._tasks[rows.trial.ids.task_id],
                paths=self._paths,
                live=live.get(rows.trial_id),
                earlier=self._earlier.get(rows.schedule_idx, ()),
            )

    def __len__(self) -> int:
        """How many there are."""
        return sum(1 for _ in self._rows()[0])

    @overload
    def __getitem__(self, index: int) -> EvalSample: ...
    @overload
    def __getitem__(self, index: slice) -> list[EvalSample]: ...
    def __getitem__(self, index: int | slice) -> EvalSample | list[EvalSample]:
        """One sample, or some; found by walking."""
        if isinstance(index, slice):
            return list(self)[index]
        wanted = index if index >= 0 else len(self) + index
        for number, sample in enumerate(self):
            if number == wanted:
                return sample
        raise IndexError(f"sample {index} of a log with {len(self)} samples")

    def _rows(self) -> tuple[Iterator[SlotRows], LiveTranscripts]:
        gaps, live = read_gaps(self._paths, self._experiment, read_run(self._paths).run_id)
        return heapq.merge(iter_finished(self._paths), gaps, key=lambda rows: rows.schedule_idx), live


@dataclass(frozen=True, slots=True, kw_only=True)
class EvalLogInfo:
    """A log at a glance."""

    name: str
    """The run's directory."""
    task: str
    status: str
    """As in the log, so `started` also for a run that crashed; `unreadable` where there is no log to read."""
    created: str = ""
    problem: str | None = field(default=None)

    def read(self) -> EvalLog:
        """Read the log."""
        return EvalLog(self.name)


LogFilter = Callable[[EvalLogInfo], bool]


def make_spec(record: RunRecord) -> EvalSpec:
    """What a run's record says was run."""
    program: Program | None = read_program(record.experiment)
    return EvalSpec(
        task=record.name,
        task_id=record.lineage_id,
        run_id=record.run_id,
        created=record.created_at,
        task_file=program.file.path if program and program.file else record.experiment.get("source") or None,
        task_args=program.arguments if program else {},
        model=program.model if program else None,
        model_base_url=program.base_url if program else None,
        model_config=program.config if program else {},
        limits=program.limits if program else {},
        epochs=int(record.experiment.get("replications", 1)),
        tags=record.tags,
        metadata=record.experiment.get("metadata", {}),
        digest=record.digests.experiment,
    )
