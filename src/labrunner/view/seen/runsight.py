"""One run, and all runs of a folder, for their pages."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from labrunner.analysis.judging.cautions import ONLY_AT_THE_END, describe_caution
from labrunner.analysis.judging.sentences import describe
from labrunner.analysis.report import Report
from labrunner.analysis.summary import read_lineage, read_report
from labrunner.analysis.sums.lineage import describe_lineage
from labrunner.errors import InputError
from labrunner.records.run import StatusRecord
from labrunner.runner.reports.lookup import RunPicture
from labrunner.store.layout import RunPaths
from labrunner.store.reading.glancing import glance_at
from labrunner.store.reading.listing import RunListing, address, count_again, list_runs
from labrunner.view.plain.run_json import plain_listing, plain_run
from labrunner.view.seen.lookout import Lookout, Unfigured

MOST_RUNS: Final = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class RunsAsked:
    """Which runs somebody wants to see, in which order."""

    words: tuple[str, ...] = ()
    state: str | None = None
    sort: str = "begun"
    is_descending: bool = False
    offset: int = 0


def see_runs(lookout: Lookout, asked: RunsAsked) -> dict[str, object]:
    """A page of runs, the newest first unless another order is asked for."""
    listed = {run.paths.root.name: run for run in list_runs(lookout.runs_dir)}
    plain = [_plain(lookout, run) for run in listed.values()]
    found = [run for run in plain if _fits(run, asked.words, asked.state)]
    if asked.sort != "begun":
        key = _find_key(asked.sort)
        found.sort(
            key=lambda run: key(_in_full(lookout, listed[str(run["key"])]) | run), reverse=asked.is_descending
        )
    elif asked.is_descending:
        found.reverse()
    offset = asked.offset
    page = found[offset : offset + MOST_RUNS]
    return {
        "folder": str(lookout.runs_dir),
        "total": len(found),
        "offset": offset,
        "states": sorted({str(run["state"]) for run in plain}),
        "runs": [_in_full(lookout, listed[str(run["key"])]) | run for run in page],
    }


def _figure_of(name: str) -> Callable[[Mapping[str, Any]], float]:
    return lambda run: run.get(name) or 0.0


def _done(run: Mapping[str, Any]) -> float:
    """How much of a run is done."""
    counts = run.get("counts")
    done = counts.passed + counts.failed + counts.errors if counts else 0
    return float(done / max(1, run.get("planned") or 0))


SORTS: Final[Mapping[str, Callable[[Mapping[str, Any]], Any]]] = {
    "run": lambda run: (str(run["name"]).lower(), run["key"]),
    "state": lambda run: str(run["state"]),
    "done": _done,
    "errors": lambda run: run["counts"].errors if run.get("counts") else 0,
    "retried": _figure_of("retried"),
    "cost": _figure_of("cost_usd"),
}


def _find_key(name: str) -> Callable[[Mapping[str, Any]], Any]:
    try:
        return SORTS[name]
    except KeyError:
        raise InputError("sort", f"there is no {name!r}; there are: begun, {', '.join(SORTS)}") from None


def _plain(lookout: Lookout, run: RunListing) -> dict[str, object]:
    """How a run is called and stands; of a damaged one, and of one of another version, what to type."""
    key, name = run.paths.root.name, address(run.paths)
    told: dict[str, object] = {"key": key, "name": run.name}
    if run.state == "unreadable":
        if (version := find_version(run.paths)) is not None:
            return told | {"state": "foreign", "type_next": f"pip install labrunner=={version}"}
        return told | {"state": run.state, "type_next": f"lab verify {name}"}
    if run.state != "started" and (damage := lookout.find_damage(key)) is not None:
        return told | {"state": "damaged", "problem": damage, "type_next": f"lab log recover {name}"}
    return told | {
        "state": "running" if run.state == "started" else run.state,
        "type_next": None if run.is_report else find_next(run.state, run.status, name),
    }


def find_next(state: str, status: StatusRecord | None, name: str) -> str | None:
    """What to type where a run stands still; None where there is nothing to go on with."""
    if state == "error" and status is not None and status.error is not None and status.error.trial_id:
        return f"lab retry {name}"  # more errors than it tolerates, and those that are committed stay
    return f"lab continue {name}" if state in {"crashed", "error", "cancelled"} else None


class _Maker(msgspec.Struct):
    labrunner: str = ""


class _Foreign(msgspec.Struct):
    schema_version: str
    provenance: _Maker = msgspec.field(default_factory=_Maker)


def find_version(paths: RunPaths) -> str | None:
    """The version of labrunner that wrote a run whose records are of another kind than ours."""
    try:
        found = msgspec.json.decode(paths.run.read_bytes(), type=_Foreign)
    except (OSError, ValueError, RecursionError):
        return None
    is_foreign = found.schema_version.startswith("run_v") and found.schema_version != "run_v1"
    version = found.provenance.labrunner
    return version if is_foreign and _VERSION.fullmatch(version) else None


_VERSION: Final = re.compile(r"[0-9][0-9A-Za-z.+-]{0,40}")


def _fits(run: Mapping[str, object], words: tuple[str, ...], state: str | None) -> bool:
    text = f"{run['key']}\n{run['name']}\n{run['state']}".lower()
    return (state is None or run["state"] == state) and all(word in text for word in words)


def _in_full(lookout: Lookout, run: RunListing) -> dict[str, object]:
    """What a list tells of a run that does not change while its files do not."""

    def make() -> dict[str, object]:
        outcome = glance_at(run.paths, run.state)
        return {
            **plain_listing(count_again(run)),
            "intervals": outcome.intervals,
            "retried": outcome.retried,
            "ended_at": run.status.ended_at if run.status else None,
            "error": run.status.error if run.status else None,
        }

    return lookout.list_once(run.paths.root.name, make)


def see_run(seen: RunPicture | Unfigured) -> dict[str, object]:
    """A run's figures, conclusions and warnings; while they are being made, what there is of them."""
    if isinstance(seen, RunPicture):
        return _see_figured(seen)
    if seen.summary is not None:
        older = RunPicture(
            paths=seen.paths, record=seen.record, state=seen.state, status=seen.status, summary=seen.summary
        )
        return _see_figured(older) | {"is_figuring": True}
    told = {"run": str(seen.paths.root), "state": seen.state, "status": seen.status, "summary": None}
    return told | _tell_origin(seen) | {"is_figuring": True, "conclusions": (), "warnings": ()}


def _see_figured(seen: RunPicture) -> dict[str, object]:
    told: dict[str, Any] = msgspec.to_builtins(plain_run(seen))
    told["summary"]["ext"].pop("inputs", None)  # sums of every task: no screen shows them
    report, lineage = read_report(seen.summary), read_lineage(seen.summary)
    return told | {
        **_tell_origin(seen),
        "conclusions": _conclude(report),
        "warnings": _warn(report, seen),
        "lineage": describe_lineage(lineage) if lineage else None,
    }


def _tell_origin(seen: RunPicture | Unfigured) -> dict[str, object]:
    record = seen.record
    return {
        "key": seen.paths.root.name,
        "name": record.name,
        "run_id": record.run_id,
        "created_at": record.created_at,
        "planned": record.planned,
        "tags": record.tags,
        "provenance": msgspec.to_builtins(record.provenance),
        "digests": msgspec.to_builtins(record.digests),
        "type_next": None
        if record.recovered_from
        else find_next(seen.state, seen.status, address(seen.paths)),
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
