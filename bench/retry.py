"""`bench retry`: how long a retry of a long run takes until its first trial starts.

Ours: planned over the whole lineage, a new run made, what was good being taken over beside. One trial in a
hundred had failed. The first thousand trials have their folders, to be linked: more than are taken over
before the first trial starts. Bare: reading the old run's journal, rows and timings once, each line decoded.
"""

import signal
import time
from pathlib import Path
from typing import Final

import msgspec

from bench.catalogue import Bench, Found
from bench.idle import IdleExecutor
from bench.killed import load_experiment, sit_at
from bench.rounds import Side, Sizes, Work, take_rounds
from bench.untilstart import iter_lines, report, time_reading
from labrunner.records.cause import Cause
from labrunner.records.completion import Completion, Failed
from labrunner.runner.again.retrying import RetryPlan, carry_out_retry, plan_retry
from labrunner.runner.own_loop import run_alone
from labrunner.runner.sitting.sitting import Live
from labrunner.runner.start import RunOptions
from labrunner.sandbox.door import AttemptFolders, Phase, PhaseEnd, SandboxMaker, Survivor
from labrunner.sandbox.fake import FakeMaker
from labrunner.store.layout import RunPaths
from labrunner.trial.assignment import Assignment, Notes

EVERY: Final = 100
WITH_FILES: Final = 1000
_FILES: Final = ("out/benchmark_score.json", "logs/agent.stdout")


class FailingExecutor(IdleExecutor):
    """Carries nothing out; one trial in a hundred fails."""

    async def carry_out(
        self, assignment: Assignment, notes: Notes, survivor: Survivor | None = None
    ) -> Completion:
        """Complete at once."""
        done = await super().carry_out(assignment, notes, survivor)
        if assignment.slot.schedule_idx % EVERY:
            return done
        end = Failed(cause=Cause.GRADE_ERROR, reason="grader_exit", message="the grader failed")
        return msgspec.structs.replace(done, end=end, files=())


async def _look_away(live: Live) -> None:
    del live


def make_run(folder: Path, sizes: Sizes) -> RunPaths:
    """Carry out a run in which some trials fail, and give the first ones their files."""
    experiment = load_experiment(folder, sizes["trials"])
    end = run_alone(sit_at(experiment, folder, FailingExecutor(), _look_away))
    for line in end.paths.commits.read_bytes().splitlines()[:WITH_FILES]:
        trial = end.paths.attempt(msgspec.json.decode(line)["trial_id"], 1)
        for name in _FILES:
            (trial / name).parent.mkdir(parents=True)
            (trial / name).write_text('{"score": 1}\n')
    return end.paths


def prepare_ours(folder: Path, sizes: Sizes) -> Work:
    """Make a run; the work is to retry it, until its first trial has started."""
    paths = make_run(folder, sizes)
    started: list[float] = []

    def script(phase: Phase, folders: AttemptFolders) -> PhaseEnd:
        del phase, folders
        if not started:
            started.append(time.monotonic())
            signal.raise_signal(signal.SIGINT)
        return PhaseEnd(exit_status=0)

    def make(kind: str) -> SandboxMaker:
        del kind
        return FakeMaker(script=script)

    def ignore_plan(planned: RetryPlan) -> None:
        del planned

    def work() -> dict[str, float]:
        began = time.monotonic()
        options = RunOptions(
            runs_dir=paths.root.parent,
            secrets={},
            run_id="retry",
            grace_s=0.0,
            make=make,
        )
        planned = plan_retry(paths)
        assert planned.reuse.owed == -(-sizes["trials"] // EVERY)
        run_alone(carry_out_retry(planned, options, _look_away, on_plan=ignore_plan))
        return {"until_start_s": started[0] - began}

    return work


def prepare_bare(folder: Path, sizes: Sizes) -> Work:
    """Make a run; the work is to read it once."""
    paths = make_run(folder, sizes)

    return time_reading(lambda: iter_lines(paths))


def measure(sizes: Sizes, rounds: int) -> Found:
    taken = take_rounds("retry", tuple(SIDES), sizes, rounds)
    return report(taken, "until the first trial starts")


SIDES: Final[dict[str, Side]] = {"ours": prepare_ours, "bare": prepare_bare}
BENCH: Final = Bench(
    name="retry",
    work="retrying a run in which one trial in a hundred failed, until its first trial starts",
    against="reading the old run's journal, rows and timings once",
    sizes={"trials": 10_000},
    rounds=3,
    measure=measure,
)
