"""`bench recover`: going on after `kill -9`, with half of what was finished waiting in the buffer.

Ours: from the moment at which the run is opened to the moment at which the owed trial starts: lock, journal,
rows, buffer, crash note, counts. Bare: reading the journal, the rows and the buffer once, each line decoded.
"""

import asyncio
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

from bench.catalogue import Bench, Found
from bench.figures import Bar, Figure
from bench.idle import IdleExecutor
from bench.killed import load_experiment, make_killed_run, sit_at
from bench.rounds import Sample, Side, Sizes, Work, take_rounds
from labrunner.engine.session import Live
from labrunner.records.completion import Completion
from labrunner.sandbox.door import Survivor
from labrunner.store.layout import RunPaths
from labrunner.trial.assignment import Assignment, Notes


class TimedExecutor(IdleExecutor):
    """Carries nothing out, and notes when it was first asked to."""

    def __init__(self) -> None:
        """Nobody has asked yet."""
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
        asyncio.run(sit_at(experiment, folder, executor, watch))
        assert executor.asked_at is not None
        return {"until_start_s": executor.asked_at - began}

    return work


def prepare_bare(folder: Path, sizes: Sizes) -> Work:
    """Make a killed run; the work is to read it once."""
    paths = make_killed_run(folder, sizes["trials"])

    def work() -> dict[str, float]:
        began = time.monotonic()
        for text in _texts(paths):
            msgspec.json.decode(text)
        return {"until_start_s": time.monotonic() - began}

    return work


def _texts(paths: RunPaths) -> Iterator[bytes]:
    for path in (paths.commits, paths.predictions, paths.scores, paths.trials, paths.timings):
        with path.open("rb") as file:
            yield from file
    connection = sqlite3.connect(paths.buffer)
    for (payload,) in connection.execute("SELECT payload FROM completions"):
        yield payload
    connection.close()


def measure(sizes: Sizes, rounds: int) -> Found:
    taken = take_rounds("recover", tuple(SIDES), sizes, rounds)
    ours, bare = (taken.median(side, _until_start) for side in ("ours", "bare"))
    return Found(
        figures=(
            Figure(name="reading the files", value=bare, unit="s"),
            Figure(name="until the owed trial starts", value=ours, unit="s", bar=Bar("at_most", 2.0)),
            Figure(
                name="ratio",
                value=taken.ratio("ours", "bare", _until_start),
                unit="x",
                bar=Bar("at_most", 5),
            ),
        ),
        samples={name: [_until_start(sample) for sample in samples] for name, samples in taken.sides.items()},
    )


def _until_start(sample: Sample) -> float:
    return sample.extra["until_start_s"]


SIDES: Final[dict[str, Side]] = {"ours": prepare_ours, "bare": prepare_bare}
BENCH: Final = Bench(
    name="recover",
    work="going on after `kill -9` with all trials but one finished, half of them in the buffer",
    against="reading journal, rows and buffer once",
    sizes={"trials": 10_000},
    rounds=3,
    measure=measure,
)
