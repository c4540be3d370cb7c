"""Carries runs out in processes that can be killed: `python -m tests.kit.crash.driver`, jobs as lines.

Each job is carried out in a forked child, so that a new owner of a run costs milliseconds, not an
interpreter's start. The server itself owns nothing and has one thread. What happens is told on standard
output, a line each, written at once; the last line of a job is the server's `ended`.
"""

import asyncio
import ctypes
import faulthandler
import hashlib
import itertools
import os
import signal
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Literal

import msgspec
from msgspec.structs import replace

from labrunner.errors import LabError
from labrunner.experiment.options.overrides import Overrides
from labrunner.experiment.resolving.load import load
from labrunner.files import points
from labrunner.records.encoding import canonical
from labrunner.records.rows import SlotRows
from labrunner.runner.again.retrying import RetryPlan, carry_out_retry, plan_retry
from labrunner.runner.resume.continuing import continue_run
from labrunner.runner.resume.recovering import recover_run
from labrunner.runner.sitting.sitting import Live, Watch
from labrunner.runner.start import RunOptions, run_experiment
from labrunner.sandbox.door import AttemptFolders, Phase, PhaseEnd
from labrunner.sandbox.fake import FakeMaker
from labrunner.store.layout import RunPaths
from tests.kit.crash import faults
from tests.kit.crash.scenario import RUN_ID, play

PR_SET_PDEATHSIG = 1


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """What a child is to do: begin the run, or go on with it where it exists; or recover it."""

    experiment: str
    runs_dir: str
    run_id: str = RUN_ID
    action: Literal["go_on", "retry", "recover", "overwrite"] = "go_on"
    retry_of: str = ""
    die_at: str | None = None
    """A point of the store at which to die: `name:hit`."""
    fault: faults.Fault | None = None
    slow_trial: str | None = None
    """A trial whose agent takes its time."""
    slow_s: float | None = None
    """How long it takes; None: it does not end by itself."""
    failing: frozenset[str] | None = None
    """Trials that fail this time; None: those that always do."""
    die_after: int | None = None
    """Die as soon as so many results have been acknowledged."""
    grace_s: float = 0.0


def digest_slot(rows: SlotRows) -> str:
    """Everything that was promised about a slot, in one word."""
    plain = replace(rows, timing=replace(rows.timing, seal=""))  # put on when it is written
    return hashlib.sha256(canonical.encode(plain)).hexdigest()


def tell(*words: object) -> None:
    """Say one line. Short enough for a pipe to take it whole, whatever happens to us next."""
    os.write(1, (" ".join(map(str, words)) + "\n").encode())


async def carry_out(job: Job) -> int:
    """Begin, go on or retry; returns the exit code."""

    async def script(phase: Phase, folders: AttemptFolders) -> PhaseEnd:
        trial = phase.env["AGENTLAB_TRIAL_ID"]
        if phase.name == "agent":
            tell("agent", trial, folders.root.name)
            if trial == job.slow_trial:
                await (asyncio.sleep(job.slow_s) if job.slow_s is not None else asyncio.Event().wait())
        return await play(phase, folders, job.failing)

    async def watch(live: Live) -> None:
        tell_finished(live, job.die_after)

    runs_dir, paths = Path(job.runs_dir), RunPaths(Path(job.runs_dir) / job.run_id)
    options = RunOptions(
        runs_dir=runs_dir,
        secrets={},
        run_id=job.run_id,
        grace_s=job.grace_s,
        make=lambda kind: FakeMaker(script=script),
    )
    if job.action == "retry":
        planned = plan_retry(RunPaths(runs_dir / job.retry_of))
        end = await carry_out_retry(planned, options, watch, on_plan=tell_plan)
    elif paths.run.exists():
        return await go_on(paths, options, watch)
    else:
        end = await run_experiment(load(Path(job.experiment)), options, watch)
    return int(end.exit_code)


async def go_on(paths: RunPaths, options: RunOptions, watch: Watch) -> int:
    """Go on in place; nothing to do is fine."""
    end = await continue_run(paths, options, Overrides(), watch)
    return 0 if end is None else int(end.exit_code)


def tell_plan(planned: RetryPlan) -> None:
    """Say what a retry takes over and what it runs."""
    tell("plan", planned.reuse.reused, planned.reuse.owed)


async def recover(job: Job) -> int:
    """Make a report of the run, beside it or in its place."""
    done = await recover_run(RunPaths(Path(job.runs_dir) / job.run_id), overwrite=job.action == "overwrite")
    tell("recovered", done.recovered, done.owed, done.damaged)
    return 0


def tell_finished(live: Live, die_after: int | None) -> None:
    """Say that the run is open, and from then on which results were acknowledged as durable."""
    finish, numbers = live.writer.finish, itertools.count(1)

    async def finish_and_tell(rows: SlotRows, *, token: str) -> bool:
        is_durable = await finish(rows, token=token)
        if is_durable:
            tell("finished", rows.schedule_idx, rows.trial_id, digest_slot(rows))
            if next(numbers) == die_after:
                os.kill(os.getpid(), signal.SIGKILL)
        return is_durable

    vars(live.writer)["finish"] = finish_and_tell
    if (lost := live.writer.opening.lost_buffer) is not None:
        tell("lost", lost)
    tell("open", live.writer.next_idx)


def be_child(job: Job) -> int:
    """Do a job in this process, which belongs to it alone."""
    # A server that was killed must not leave a child that goes on.
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    vars(points)["_TARGET"] = job.die_at or "nowhere:0"
    if job.fault is not None:
        faults.arm(job.fault, Path(job.runs_dir), lambda place: tell("fault", place))
    try:
        code = asyncio.run(recover(job) if job.action in {"recover", "overwrite"} else carry_out(job))
    except LabError as error:
        tell("error", int(error.exit_code), str(error).replace("\n", " | "))
        code = int(error.exit_code)
    tell("points", msgspec.json.encode(points.hits).decode())
    return code


def serve(run: Callable[[Job], int]) -> None:
    """Do jobs until there are no more."""
    for line in sys.stdin.buffer:
        pid = os.fork()
        if pid == 0:
            os._exit(_guarded(run, msgspec.json.decode(line, type=Job)))
        tell("pid", pid)
        _, status = os.waitpid(pid, 0)
        tell("ended", os.waitstatus_to_exitcode(status))


def _guarded(run: Callable[[Job], int], job: Job) -> int:
    try:
        return run(job)
    except BaseException:  # noqa: BLE001 - nothing of a child may get back into the server's loop
        sys.excepthook(*sys.exc_info())
        return 99


if __name__ == "__main__":
    faulthandler.enable()  # a child that a library's fault ends tells where
    import_module("scipy.special")  # here once, not in every child
    serve(be_child)
