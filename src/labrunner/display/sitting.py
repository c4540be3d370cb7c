"""What people see while a run goes on, and at its end: the same for whoever carries one out."""

import os
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from labrunner.display.checks import show_warnings
from labrunner.display.decision import DECISION
from labrunner.display.progress import Pace, Progress, Screen, follow
from labrunner.display.results.show import show_run
from labrunner.display.text.console import make_console
from labrunner.display.text.quantities import format_count
from labrunner.display.text.saying import say_aside
from labrunner.errors import ExitCode
from labrunner.records.encoding import canonical
from labrunner.records.run import StatusRecord
from labrunner.records.summary import SummaryRecord
from labrunner.runner.plan import Plan
from labrunner.runner.sitting.sitting import Live, RunEnd
from labrunner.runner.sitting.stopping import Interrupted
from labrunner.sandbox.door import Check
from labrunner.store.layout import RunPaths
from labrunner.store.opening.opening import OpeningReport
from labrunner.store.reading.listing import address


@contextmanager
def screen_may_go() -> Iterator[None]:
    """Outlive the terminal or pipe that is written to: a run and its exit code matter more than that."""
    try:
        yield
    except OSError:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        for stream in (sys.stdout, sys.stderr):
            os.dup2(nowhere, stream.fileno())
        os.close(nowhere)


def tell_checks(checks: tuple[Check, ...]) -> None:
    """Show what preflight warns of, on standard error; what it refuses is told when the command ends."""
    shown = show_warnings(checks)
    if shown is not None:
        make_console(sys.stderr).print(shown)


def tell_opening(found: OpeningReport) -> None:
    """Say what a crash had left and what was made of it, on standard error; nothing for a run in order."""
    lines = []
    if found.cut_bytes:
        cut = ", ".join(f"{size:,} bytes of {name}" for name, size in found.cut_bytes.items())
        lines.append(f"unfinished writes were cut off and kept in salvage/: {cut}")
    if found.restored:
        lines.append(f"{format_count(found.restored, 'finished trial')} committed from the buffer")
    if found.dropped_slots:
        dropped = ", ".join(map(str, found.dropped_slots))
        lines.append(f"results in the buffer that can't be used, owed again: slots {dropped}")
    if found.lost_buffer is not None:
        lines.append(found.lost_buffer)
    for line in lines:
        say_aside(line)


def _tell_at_once(plan: Plan) -> str:
    """How many trials run at a time."""
    if not plan.has_places_elsewhere:
        return str(plan.concurrency)
    is_capped = plan.experiment.policy.max_concurrency != "auto"
    return f"at most {plan.concurrency}" if is_capped else "as many as nodes take"


async def watch(live: Live) -> None:
    """Show progress on standard error, so that standard output stays clean."""
    with screen_may_go():
        say_aside(
            f"run {live.plan.run_id}: {format_count(live.tallies.planned, 'trial')}, "
            f"{_tell_at_once(live.plan)} at once"
        )
        tell_opening(live.writer.opening)
    started, before = time.monotonic(), live.writer.counts()
    pace = Pace(planned=live.tallies.planned, done_before=before.committed + before.buffered)

    def look() -> Progress:
        counts, elapsed_s = live.writer.counts(), time.monotonic() - started
        done = counts.committed + counts.buffered
        return Progress(
            planned=live.tallies.planned,
            committed=counts.committed,
            buffered=counts.buffered,
            running=live.tallies.running,
            passed=live.tallies.passed,
            failed=live.tallies.failed,
            errors=live.tallies.errors,
            elapsed_s=elapsed_s,
            eta_s=pace.estimate_left(done=done, elapsed_s=elapsed_s),
            note=_note(live),
            warning=live.tallies.warning,
        )

    await follow(look, Screen.of(sys.stderr))


def _note(live: Live) -> str:
    if not live.stop.stopped.is_set():
        return live.tallies.pause
    if live.stop.hurried.is_set():
        return "ending trials in flight"
    if isinstance(live.stop.reason, Interrupted):
        return f"stopping within {live.plan.grace_s:g} s; signal again to end trials now"
    return f"giving up within {live.plan.grace_s:g} s; a signal ends trials now"


def tell_end(end: RunEnd, *, as_json: bool, judged: Mapping[str, Sequence[str]] | None = None) -> None:
    """Say how a run ended, and what to do next; for programs, one line for each run.

    What it was held to, if anything (`unmet`, `notes`), is in that line; people are told elsewhere.
    """
    with screen_may_go():
        if as_json:
            _write_line(end.paths, end.status, end.summary, judged)
        else:
            _show_end(end)
        sys.stdout.flush()


def tell_done_before(paths: RunPaths, *, as_json: bool) -> None:
    """Give programs the line of a run that had succeeded before; people are told elsewhere."""
    if as_json:
        from labrunner.runner.reports.lookup import picture

        seen = picture(paths)
        with screen_may_go():
            _write_line(paths, seen.status, seen.summary)


def _write_line(
    paths: RunPaths,
    status: StatusRecord,
    summary: SummaryRecord | None,
    judged: Mapping[str, Sequence[str]] | None = None,
) -> None:
    told = {"run": str(paths.root), "status": status, "summary": summary, **(judged or {})}
    sys.stdout.write(canonical.encode_line(told).decode())


def _show_end(end: RunEnd) -> None:
    name = address(end.paths)
    error = end.status.error
    hints = [
        ("the run", str(end.paths.root)),
        *([("why", f"lab show {name} {error.trial_id}")] if error and error.trial_id else []),
        ("every table", f"lab show {name}"),
        ("check it", f"lab verify {name}"),
    ]
    console = make_console()
    state, summary = end.status.status, end.summary
    console.print(
        show_run(state=state, status=end.status, summary=summary, hints=hints, in_full=False, name=name)
    )
    if end.exit_code != ExitCode.SUCCESS:
        console.print(DECISION)
