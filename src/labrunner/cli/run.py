"""`lab run`: runs experiments and says how they ended."""

import asyncio
import sys
import time

import msgspec

from labrunner.cli import plan
from labrunner.cli.commands import COMMANDS, DECISION
from labrunner.cli.options import secrets_from
from labrunner.cli.target import Call, make_target_app
from labrunner.display.checks import show_failed_checks
from labrunner.display.console import make_console
from labrunner.display.progress import Progress, Screen, estimate_left, follow
from labrunner.display.show import show_run
from labrunner.engine.run import RunOptions, run_experiment
from labrunner.engine.session import Live, RunEnd
from labrunner.errors import ExitCode
from labrunner.experiment.model import Experiment
from labrunner.records import canonical
from labrunner.sandbox.door import Check

LONG_RUN = 20
"""From this many trials on, a run that its first error would end deserves a warning."""


def run(call: Call) -> int:
    """Run every target in turn; the first exit code that is not a success is the command's."""
    if call.dry_run:
        return plan.plan(call)
    codes = [_run_one(experiment, call) for experiment in call.experiments()]
    return next((code for code in codes if code != ExitCode.SUCCESS), int(ExitCode.SUCCESS))


def _run_one(experiment: Experiment, call: Call) -> int:
    _warn_of_first_error(experiment)
    options = RunOptions(
        runs_dir=call.log_dir,
        secrets=secrets_from(call.env_file),
        run_id=call.run_id,
        grace_s=call.grace_s,
        env_file=call.env_file,
        overrides=msgspec.to_builtins(call.overrides),
        on_checks=_show_checks,
    )
    end = asyncio.run(run_experiment(experiment, options, _watch))
    _show_end(end, as_json=call.as_json)
    return int(end.exit_code)


def _warn_of_first_error(experiment: Experiment) -> None:
    planned = len(experiment.tasks) * len(experiment.variants) * experiment.replications
    policy = experiment.policy
    if planned >= LONG_RUN and policy.fail_on_error is True and not policy.retry_on_error:
        sys.stderr.write(
            "note: the first error will end this run; --retry-on-error or --fail-on-error=0.1 tolerate some\n"
        )


def _show_checks(checks: tuple[Check, ...]) -> None:
    shown = show_failed_checks(checks)
    if shown is not None:
        make_console(sys.stderr).print(shown)


async def _watch(live: Live) -> None:
    """Show progress on standard error, so that standard output stays clean."""
    sys.stderr.write(
        f"run {live.plan.run_id}: {live.tallies.planned} trials, {live.plan.concurrency} at once\n"
    )
    started, before = time.monotonic(), live.writer.counts()
    done_before = before.committed + before.buffered

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
            eta_s=estimate_left(
                planned=live.tallies.planned, done=done, done_before=done_before, elapsed_s=elapsed_s
            ),
            note=_note(live),
        )

    await follow(look, Screen.of(sys.stderr))


def _note(live: Live) -> str:
    if not live.stop.stopped.is_set():
        return live.tallies.pause
    if live.stop.hurried.is_set():
        return "ending trials in flight"
    return f"stopping: up to {live.plan.grace_s:g} s for trials in flight, signal again to end them now"


def _show_end(end: RunEnd, *, as_json: bool) -> None:
    if as_json:
        told = {"run": str(end.paths.root), "status": end.status, "summary": end.summary}
        sys.stdout.write(canonical.encode_line(told).decode())
        return
    name = end.paths.root.name
    hints = [
        ("the run", str(end.paths.root)),
        ("look again", f"lab show {name}"),
        ("check it", f"lab verify {name}"),
    ]
    console = make_console()
    console.print(show_run(state=end.status.status, status=end.status, summary=end.summary, hints=hints))
    if end.exit_code != ExitCode.SUCCESS:
        console.print(DECISION)


app = make_target_app(run, f"{COMMANDS['run'].does[0].upper()}{COMMANDS['run'].does[1:]}.")
