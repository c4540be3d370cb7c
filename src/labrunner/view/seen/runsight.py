"""One run, and all runs of a folder, for their pages."""

from collections.abc import Mapping
from functools import partial
from typing import Any, Final

import msgspec

from labrunner.analysis.judging.cautions import ONLY_AT_THE_END, describe_caution
from labrunner.analysis.judging.sentences import describe
from labrunner.analysis.report import Report
from labrunner.analysis.summary import read_lineage, read_report
from labrunner.analysis.sums.lineage import describe_lineage
from labrunner.runner.reports.lookup import RunPicture
from labrunner.store.reading.glancing import glance_at
from labrunner.store.reading.listing import RunListing, address, count_again, list_runs
from labrunner.view.plain.run_json import plain_listing, plain_run
from labrunner.view.seen.lookout import Lookout

MOST_RUNS: Final = 200


def see_runs(
    lookout: Lookout, *, words: tuple[str, ...], state: str | None, offset: int
) -> dict[str, object]:
    """A page of runs, the newest first."""
    listed = list_runs(lookout.runs_dir)
    plain = [_plain(run) for run in listed]
    found = [run for run in plain if _fits(run, words, state)]
    page = found[offset : offset + MOST_RUNS]
    by_name = {run.paths.root.name: run for run in listed}
    shown = [(name, by_name[name]) for name in (str(run["key"]) for run in page)]
    return {
        "folder": str(lookout.runs_dir),
        "total": len(found),
        "offset": offset,
        "states": sorted({str(run["state"]) for run in plain}),
        "runs": [lookout.list_once(name, partial(_in_full, run)) for name, run in shown],
    }


def _plain(run: RunListing) -> dict[str, object]:
    state = "running" if run.state == "started" else run.state
    return {"key": run.paths.root.name, "name": run.name, "state": state}


def _fits(run: Mapping[str, object], words: tuple[str, ...], state: str | None) -> bool:
    text = f"{run['key']}\n{run['name']}\n{run['state']}".lower()
    return (state is None or run["state"] == state) and all(word in text for word in words)


def _in_full(run: RunListing) -> dict[str, object]:
    outcome = glance_at(run.paths, run.state)
    return {
        **plain_listing(count_again(run)),
        "key": run.paths.root.name,
        "intervals": outcome.intervals,
        "retried": outcome.retried,
        "ended_at": run.status.ended_at if run.status else None,
        "error": run.status.error if run.status else None,
        "type_next": _advise(run),
    }


def _advise(run: RunListing) -> str | None:
    """What to type for a run that did not come to its end."""
    match run.state:
        case "crashed" | "error" | "cancelled" if not run.is_report:
            return f"lab continue {address(run.paths)}"
        case "unreadable":
            return f"lab verify {address(run.paths)}"
        case _:
            return None


def see_run(seen: RunPicture) -> dict[str, object]:
    """A run's figures, conclusions and warnings."""
    told: dict[str, Any] = msgspec.to_builtins(plain_run(seen))
    told["summary"]["ext"].pop("inputs", None)  # sums of every task: no screen shows them
    report, record = read_report(seen.summary), seen.record
    lineage = read_lineage(seen.summary)
    return told | {
        "key": seen.paths.root.name,
        "name": record.name,
        "run_id": record.run_id,
        "created_at": record.created_at,
        "planned": record.planned,
        "tags": record.tags,
        "provenance": msgspec.to_builtins(record.provenance),
        "digests": msgspec.to_builtins(record.digests),
        "conclusions": _conclude(report),
        "warnings": _warn(report, seen),
        "lineage": describe_lineage(lineage) if lineage else None,
        "address": address(seen.paths),
    }


def _conclude(report: Report) -> list[dict[str, object]]:
    return [
        {
            "baseline": each.baseline,
            "other": each.other,
            "conclusion": each.conclusion,
            "says": describe(each),
            "difference": each.difference,
            "low": each.answer.interval.low if each.answer else None,
            "high": each.answer.interval.high if each.answer else None,
        }
        for each in report.comparisons
    ]


def _warn(report: Report, seen: RunPicture) -> list[dict[str, object]]:
    is_over, name = seen.state != "started", address(seen.paths)
    told = [each for each in report.cautions if is_over or each.kind not in ONLY_AT_THE_END]
    return [
        {"kind": each.kind, "text": describe_caution(each, name), "trial_id": each.trial_id}
        for each in sorted(told, key=lambda each: each.variant_id is not None)  # what is about the run first
    ]
