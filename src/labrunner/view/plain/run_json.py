"""A run as plain JSON: in a listing, and looked at alone."""

from collections.abc import Sequence

from labrunner.runner.reports.lookup import RunPicture
from labrunner.runner.reports.postmortem import Postmortem, examine_crash
from labrunner.store.reading.glancing import glance_at
from labrunner.store.reading.listing import RunListing
from labrunner.store.reading.underway import UnderWay, read_under_way
from labrunner.store.rows.outages import read_outages
from labrunner.view.plain.underway_json import plain_under_way


def states_of(run: RunListing) -> tuple[str, ...]:
    """The state that people see, and the status that the run's own file gives."""
    seen = "running" if run.state == "started" else run.state
    return (seen, run.status.status) if run.status is not None else (seen,)


def plain_listing(run: RunListing) -> dict[str, object]:
    """A run at a glance, for programs."""
    outcome = glance_at(run.paths, run.state)
    return {
        "run": str(run.paths.root),
        "run_id": run.run_id,
        "state": states_of(run)[0],
        "name": run.name,
        "created_at": run.created_at,
        "planned": run.planned,
        "counts": run.counts,
        "means": dict(outcome.means),
        "cost_usd": outcome.cost_usd,
        "problem": run.problem,
    }


def plain_run(seen: RunPicture, unmet: Sequence[str] = (), notes: Sequence[str] = ()) -> dict[str, object]:
    """A run with its summary, what is under way in it, how it crashed, and when it paused, for programs."""
    crash = examine_crash(seen.paths) if seen.state == "crashed" else None
    outages = read_outages(seen.paths)
    under_way = read_under_way(seen.paths) if seen.state == "started" else ()
    return {
        "run": str(seen.paths.root),
        "state": seen.state,
        "status": seen.status,
        "summary": seen.summary,
        "unmet": unmet,
        **({"notes": notes} if notes else {}),
        **(_plain_under_way(under_way) if under_way else {}),
        **({"crash": plain_crash(crash)} if crash else {}),
        **({"outages": outages} if outages else {}),
    }


def _plain_under_way(under_way: Sequence[UnderWay]) -> dict[str, object]:
    return {"under_way": [plain_under_way(each) for each in under_way]}


def plain_crash(found: Postmortem) -> dict[str, object]:
    """What is known about a crash, for programs."""
    return {
        "last_sign_at": found.last_sign_at,
        "has_rebooted": found.has_rebooted,
        "committed": found.committed,
        "buffered": found.buffered,
        "in_flight": [
            {"trial_id": note.trial_id, "attempt": note.attempt, "state": note.state}
            for note in found.in_flight
        ],
        "owed": found.owed,
        "lost": found.lost,
    }
