"""Writes a run as `.eval` logs, one a variant, that `inspect_ai` reads and `inspect view` shows.

A log holds one task and one model, so each variant has its own. A task of ours is a sample, a replication an
epoch, a failed attempt before the last one an error retry. A trial that was under way when its run ended is
a sample with an error and what was said so far; others that are owed are not in the log. What has no place of
its own there stands in a sample's metadata.
"""

import heapq
import math
import statistics
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

import msgspec

from labrunner.analysis.describing.figures import Figures
from labrunner.analysis.summary import read_report
from labrunner.experiment.resolved import Order, Variant
from labrunner.interop.exporter import Exporter
from labrunner.interop.exporters.inspect_sample import (
    SampleWriter,
    make_error,
    mean_scores,
    model_name,
    reduce_scores,
    to_utc,
)
from labrunner.records.rows import SlotRows
from labrunner.records.run import StatusRecord
from labrunner.runner.reports.gaps import read_gaps
from labrunner.runner.reports.lookup import RunInFull
from labrunner.solve.scoring.totals import compute_results
from labrunner.store.reading.run_state import iter_finished
from labrunner.version import VERSION

LOG_VERSION: Final = 2
_STATUSES: Final = {"crashed": "started"}

Plain = dict[str, Any]  # JSON, as that format has it


def write(seen: RunInFull, target: Path) -> tuple[Path, ...]:
    """Write the logs: a file for one variant, else a folder with a file each."""
    variants = seen.results.experiment.variants
    if len(variants) == 1:
        names = [target]
    else:
        target.mkdir(parents=True, exist_ok=True)
        names = [target / f"{seen.record.run_id}_{_safe(variant.id)}.eval" for variant in variants]
    figures = {each.variant_id: each for each in read_report(seen.summary).figures}
    with ExitStack() as stack:
        logs = {
            variant.id: stack.enter_context(_LogFile(path, seen, variant, figures[variant.id]))
            for variant, path in zip(variants, names, strict=True)
        }
        for rows, live in _iter_rows(seen):
            logs[rows.trial.ids.variant_id].samples.add(rows, live)
    return tuple(names)


def _is_folder(seen: RunInFull) -> bool:
    return len(seen.results.experiment.variants) > 1


FORMAT: Final = Exporter(ending=".eval", write=write, is_folder=_is_folder, has_own_files=True)


def _iter_rows(seen: RunInFull) -> Iterator[tuple[SlotRows, Mapping[int, bytes]]]:
    """Every trial that left anything, in schedule order, with what no file holds of it yet, by attempt."""
    gaps, live = read_gaps(seen.paths, seen.results.experiment, seen.record.run_id)
    for rows in heapq.merge(iter_finished(seen.paths), gaps, key=lambda rows: rows.schedule_idx):
        if rows.trial.outcome != "cancelled" or rows.timing.cut_off:
            yield rows, live.get(rows.trial_id, {})


class _LogFile:
    """One variant's log while it is written."""

    def __init__(self, path: Path, seen: RunInFull, variant: Variant, figures: Figures) -> None:
        self._path = path
        self._seen = seen
        self._variant = variant
        self._figures = figures

    def __enter__(self) -> "_LogFile":
        self._stack = ExitStack()
        self._zip = self._stack.enter_context(zipfile.ZipFile(self._path, "w", zipfile.ZIP_DEFLATED))
        self._write(
            "_journal/start.json", {"version": LOG_VERSION, "eval": self._spec(), "plan": self._plan()}
        )
        self.samples = SampleWriter(
            self._seen, self._variant, self._figures.measure, self._write, self._stack
        )
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        with self._stack:
            if kind is None:
                self._finish()

    def _write(self, name: str, value: object) -> None:
        self._zip.writestr(name, msgspec.json.encode(value))

    def _finish(self) -> None:
        for name in ("_journal/summaries/1.json", "summaries.json"):
            with self._zip.open(name, "w", force_zip64=True) as member:
                self.samples.summaries.copy_to(member)
        self._write("reductions.json", reduce_scores(self._seen, self._variant, self._figures.measure))
        self._write("header.json", self._header())

    def _header(self) -> Plain:
        state, status = self._seen.state, self._seen.status
        header: Plain = {
            "version": LOG_VERSION,
            "status": _STATUSES.get(state, state),
            "eval": self._spec(),
            "plan": self._plan(),
            "results": self._results(),
            "stats": self._stats(status),
            "invalidated": self._figures.invalidated > 0,
        }
        if status.error is not None:
            cause = f"{status.error.cause}: " if status.error.cause else ""
            header["error"] = make_error(f"{cause}{status.error.message}")
        return header

    def _spec(self) -> Plain:
        record, experiment = self._seen.record, self._seen.results.experiment
        policy, git = experiment.policy, record.provenance.git
        measure = self._figures.measure
        spec: Plain = {
            "eval_id": f"{record.run_id}_{self._variant.id}",
            "run_id": record.run_id,
            "created": to_utc(record.created_at),
            "task": experiment.name,
            "task_id": f"{record.lineage_id}_{self._variant.id}",
            "task_version": 0,
            "task_file": experiment.source or None,
            "task_display_name": experiment.name,
            "task_description": experiment.description or None,
            "task_args": {},
            "tags": [*record.tags],
            "dataset": {
                "name": experiment.name,
                "samples": len(experiment.tasks),
                "sample_ids": [task.id for task in experiment.tasks],
                "shuffled": experiment.order is Order.SHUFFLED,
            },
            "sandbox": {"type": self._variant.sandbox.kind, "config": self._variant.sandbox.image},
            "model": model_name(self._variant),
            "config": {
                "epochs": experiment.replications,
                "epochs_reducer": ["mean"],
                "fail_on_error": policy.fail_on_error,
                "continue_on_fail": policy.continue_on_fail,
                "retry_on_error": policy.retry_on_error,
                "time_limit": round(self._variant.agent.timeout_s),
                "log_samples": True,
            },
            "packages": {"labrunner": VERSION},
            "metadata": {
                "variant_id": self._variant.id,
                "bindings": self._variant.bindings,
                "experiment_digest": experiment.digest,
                "variant_digest": self._variant.digest,
                "run_digest": self._seen.status.chain,
            },
            "scorers": [{"name": measure, "metrics": [{"name": "mean"}, {"name": "stderr"}]}],
        }
        if git is not None:
            spec["revision"] = {"type": "git", "origin": "", "commit": git.commit, "dirty": git.dirty}
        return spec

    def _plan(self) -> Plain:
        params = {"command": self._variant.agent.command}
        return {"name": "plan", "steps": [{"solver": "agent", "params": params}], "config": {}}

    def _results(self) -> Plain:
        figures = self._figures
        metrics = {
            name: {"name": name, "value": value}
            for name, value in self._metrics().items()
            if value is not None
        }
        score = {
            "name": figures.measure,
            "scorer": figures.measure,
            "reducer": "mean",
            "scored_samples": figures.tasks,
            "unscored_samples": figures.ungraded_tasks,
            "metrics": metrics,
        }
        return {
            "total_samples": figures.planned,
            "completed_samples": figures.graded,
            "logged_samples": figures.finished + figures.invalidated,
            "scores": _join(score, self._scorers()) if figures.graded else [],
        }

    def _metrics(self) -> Mapping[str, float | None]:
        figures, interval = self._figures, self._figures.interval
        return {
            "mean": figures.observed,
            "stderr": self._standard_error(),
            "pass_rate": figures.pass_rate,
            "ci_low": interval.low if interval else None,
            "ci_high": interval.high if interval else None,
        }

    def _standard_error(self) -> float | None:
        """The interval's own; where its method has none, that of the tasks' means."""
        interval = self._figures.interval
        if interval is None or interval.standard_error is not None:
            return interval.standard_error if interval else None
        means = mean_scores(self._seen, self._variant, self._figures.measure)
        return statistics.stdev(means.values()) / math.sqrt(len(means)) if len(means) > 1 else None

    def _scorers(self) -> list[Plain]:
        """What the scorers of a Python task add up to, each with its own metrics."""
        experiment = self._seen.results.experiment
        if self._variant.program is None:
            return []
        return [
            {
                "name": each.name,
                "scorer": each.name.partition(".")[0],
                "reducer": each.reducer,
                "scored_samples": each.scored_samples,
                "unscored_samples": len(experiment.tasks) - each.scored_samples,
                "metrics": {
                    name: {"name": name, "value": metric.value} for name, metric in each.metrics.items()
                },
            }
            for each in compute_results(self._seen.paths, experiment, {}).scores
        ]

    def _stats(self, status: StatusRecord) -> Plain:
        return {
            "started_at": to_utc(status.started_at),
            "completed_at": to_utc(status.ended_at or status.updated_at),
            "model_usage": self.samples.usage,
            "role_usage": {},
            "connection_limit_history": [],
        }


def _join(main: Plain, others: list[Plain]) -> list[Plain]:
    """The main figure with its scorer's own metrics, and then the others."""
    for each in others:
        if (each["name"], each["reducer"]) == (main["name"], main["reducer"]):
            joined = main | {"metrics": {**each["metrics"], **main["metrics"]}}
            return [joined, *(other for other in others if other is not each)]
    return [main, *others]


def _safe(text: str) -> str:
    return "".join(letter if letter.isalnum() or letter in "-._=" else "-" for letter in text)
