"""`bench python`: samples of a Python task with a mock model, from its code to its committed rows.

Ours: coordinator, store, lanes, model gate and transcripts over a new run, from opening its files to closing
them; each sample is asked, answered and scored, and its transcript stored as a file of its attempt. Bare: a
pool of threads that makes the same folders, writes the same transcripts, syncs them and the folders on the
way to them, and appends a row. Out on both sides: loading the task, making the run's folder, the summary.
"""

import asyncio
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from bench.catalogue import Bench, Found
from bench.engine import coordinate
from bench.figures import Bar, Figure
from bench.memory import peak_mb
from bench.rounds import Sample, Side, Sizes, Work, take_rounds
from labrunner.experiment.options.overrides import Overrides
from labrunner.experiment.resolved import Experiment
from labrunner.runner.newrun import Descent, create_new_run, make_record
from labrunner.runner.own_loop import BLOCKING_THREADS
from labrunner.runner.start import RunOptions, make_executor
from labrunner.solve.authoring.dataset import MemoryDataset
from labrunner.solve.library.scorers import includes
from labrunner.solve.library.solvers import generate, system_message
from labrunner.solve.origin import PythonTasks
from labrunner.solve.resolving.task import Task
from labrunner.solve.values.sample import Sample as TaskSample

TRANSCRIPT: Final = b'{"at":"2026-01-01T00:00:00.000Z","event":"message","seq":1}\n' * 24
"""As long as that of one sample here."""


def make_task(samples: int) -> Task:
    """A task that asks for an answer and looks for it."""
    return Task(
        dataset=MemoryDataset([TaskSample(input=f"say {n}", target=str(n)) for n in range(samples)]),
        solver=[system_message("Answer in one word."), generate()],
        scorer=includes(),
        model="mock/echo",
    )


def prepare_ours(folder: Path, sizes: Sizes) -> Work:
    """Make a run; the work is to carry it out."""
    known = PythonTasks()
    overrides = Overrides(max_concurrency=sizes["concurrency"], max_connections=sizes["concurrency"])
    experiment = known.resolve(make_task(sizes["trials"]), overrides)
    options = RunOptions(runs_dir=folder / "runs", secrets={}, run_id="bench", executors=known.executor)
    record = make_record(experiment, run_id="bench")
    paths = create_new_run(options.runs_dir, experiment, record, Descent())

    async def run(experiment: Experiment) -> None:
        pool = ThreadPoolExecutor(BLOCKING_THREADS)
        asyncio.get_running_loop().set_default_executor(pool)
        executor = make_executor(experiment, options, "bench", paths.trial_folders)
        try:
            await coordinate(experiment, paths, lambda _: None, executor)
        finally:
            await executor.close()

    def work() -> dict[str, float]:
        asyncio.run(run(experiment))
        return {"peak_mb": peak_mb()}

    return work


def prepare_bare(folder: Path, sizes: Sizes) -> Work:
    """The work is to store as many transcripts and rows."""
    rows, turn = os.open(folder / "rows.jsonl", os.O_WRONLY | os.O_CREAT | os.O_APPEND), threading.Lock()

    def store(number: int) -> None:
        attempt = folder / f"trial-{number}" / "1"
        attempt.mkdir(parents=True)
        fd = os.open(attempt / "transcript.jsonl", os.O_WRONLY | os.O_CREAT)
        os.write(fd, TRANSCRIPT)
        os.fsync(fd)
        os.close(fd)
        for place in (attempt, attempt.parent, folder):
            fd = os.open(place, os.O_RDONLY)
            os.fsync(fd)
            os.close(fd)
        with turn:
            os.write(rows, b'{"trial": "passed"}\n')

    def work() -> None:
        with ThreadPoolExecutor(sizes["concurrency"]) as pool:
            list(pool.map(store, range(sizes["trials"])))

    return work


def measure(sizes: Sizes, rounds: int) -> Found:
    taken = take_rounds("python", tuple(SIDES), sizes, rounds)
    trials = sizes["trials"]
    cost_ms = taken.median("ours") / trials * 1000
    peak = taken.median("ours", _peak)
    return Found(
        figures=(
            Figure(name="bare", value=taken.median("bare") / trials * 1000, unit="ms/sample"),
            Figure(name="ours", value=cost_ms, unit="ms/sample", bar=Bar("at_most", 2)),
            Figure(name=f"memory at {trials:,} samples", value=peak, unit="MB", bar=Bar("at_most", 200)),
            Figure(name="ratio", value=taken.ratio("ours", "bare"), unit="x"),
        ),
        samples={name: [sample.wall_s for sample in samples] for name, samples in taken.sides.items()},
    )


def _peak(sample: Sample) -> float:
    return sample.extra["peak_mb"]


SIDES: Final[dict[str, Side]] = {"bare": prepare_bare, "ours": prepare_ours}
BENCH: Final = Bench(
    name="python",
    work="samples of a Python task with a mock model, transcripts stored, rows committed",
    against="threads that store the same transcripts, synced, and append a row",
    sizes={"trials": 5_000, "concurrency": 32},
    rounds=3,
    measure=measure,
)
