"""`bench recover`: going on after `kill -9`, with half of what was finished waiting in the buffer.

Ours: from the moment at which the run is opened to the moment at which the owed trial starts: lock, journal,
rows, buffer, crash note, counts. Bare: reading the journal, the rows and the buffer once, each line decoded.
"""

import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from bench.catalogue import Bench, Found
from bench.idle import IdleExecutor
from bench.killed import load_experiment, make_killed_run, sit_at
from bench.rounds import Side, Sizes, Work, take_rounds
from bench.untilstart import iter_lines, report, time_reading
from labrunner.records.completion import Completion
from labrunner.runner.own_loop import run_alone
from labrunner.runner.sitting.sitting import Live
from labrunner.sandbox.door import Survivor
from labrunner.store.layout import RunPaths
from labrunner.trial.assignment import Assignment, Notes


class TimedExecutor(IdleExecutor):
    """Carries nothing out, and notes when it was first asked to."""

    def __init__(self) -> None:
        """Nobody has asked yet."""
        super().__init__()
        self.asked_at: float | None = None

    async def carry_out(
        self, assignment: Assignment, notes: Notes, survivor: Survivor | None = None
    ) -> Completion:
        """Complete at once."""
        self.asked_at = self.asked_at or time.monotonic()
        return await super().carry_out(assignment, notes, survivor)


def prepare_ours(folder: Path, sizes: Sizes) -> Work:
    """Make a killed run; the work is to go on with it."""
    make_killed_run(folder, sizes["trials"])
    experiment = load_experiment(folder, sizes["trials"])

    async def watch(live: Live) -> None:
        del live

    def work() -> dict[str, float]:
        executor, began = TimedExecutor(), time.monotonic()
        run_alone(sit_at(experiment, folder, executor, watch))
        assert executor.asked_at is not None
        return {"until_start_s": executor.asked_at - began}

    return work


def prepare_bare(folder: Path, sizes: Sizes) -> Work:
    """Make a killed run; the work is to read it once."""
    paths = make_killed_run(folder, sizes["trials"])

    return time_reading(lambda: _texts(paths))


def _texts(paths: RunPaths) -> Iterator[bytes]:
    yield from iter_lines(paths)
    connection = sqlite3.connect(paths.buffer)
    for (payload,) in connection.execute("SELECT payload FROM completions"):
        yield payload
    connection.close()


def measure(sizes: Sizes, rounds: int) -> Found:
    taken = take_rounds("recover", tuple(SIDES), sizes, rounds)
    return report(taken, "until the owed trial starts", most_ratio=5)


SIDES: Final[dict[str, Side]] = {"ours": prepare_ours, "bare": prepare_bare}
BENCH: Final = Bench(
    name="recover",
    work="going on after `kill -9` with all trials but one finished, half of them in the buffer",
    against="reading journal, rows and buffer once",
    sizes={"trials": 10_000},
    rounds=3,
    measure=measure,
)
