"""`bench docker`: trials in containers, several at once.

Ours: a whole run, from preflight to summary, removal of the last container included. Bare: a pool of as many
threads, each starting `docker run --rm` for one shell command that does the agent's and the grader's work.
The agent is root, so its container is started a second time for the grader. Strict: ours again, with
`trust: strict`. Changed: ours again, with agents that change the system, so that each grader has a fresh
container. Out of the bare side: mounts, the barrier, time limits, logs, syncing, everything about rows.
"""

import asyncio
import json
import statistics
import subprocess
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Final

from bench.catalogue import Bench, Found
from bench.figures import Bar, Figure
from bench.rounds import Rounds, Side, Sizes, Work, take_rounds
from bench.workload import AGENT, GRADER, Shape, make_experiment, split_trials
from labrunner.errors import ExitCode
from labrunner.runner.own_loop import run_alone
from labrunner.runner.sitting.sitting import Live
from labrunner.runner.start import RunOptions, run_experiment
from labrunner.sandbox.docker.engine.client import Engine
from tests.kit.docker.testimages import Recipe, ensure

SMALL: Final = Recipe(name="bench")
PARTS: Final = ("prepare", "agent", "barrier", "bring_grader", "grader", "collect")


def make_image(recipe: Recipe = SMALL) -> str:
    """Make a small image from this machine's own files."""

    async def make() -> str:
        engine = Engine()
        try:
            return await ensure(engine, recipe)
        finally:
            await engine.close()

    return asyncio.run(make())


def prepare_bare(folder: Path, sizes: Sizes) -> Work:
    """The work is a pool of threads, each running containers one after another."""
    del folder
    image = make_image()
    both = f"mkdir /w; cd /w; AGENTLAB_BENCHMARK_SCORE_PATH=/w/score; {AGENT}; {GRADER}; cat score"
    argv = ["docker", "run", "--rm", "--network", "none", image, "/bin/sh", "-c", both]

    def trial(_: int) -> None:
        done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, check=True)
        assert b'{"score": 1}' in done.stdout, done

    def work() -> None:
        with ThreadPoolExecutor(sizes["concurrency"]) as pool:
            for _ in pool.map(trial, range(sizes["trials"])):
                pass

    return work


def prepare_ours(folder: Path, sizes: Sizes) -> Work:
    """The work is a whole run."""
    return prepare_run(folder, sizes)


def prepare_strict(folder: Path, sizes: Sizes) -> Work:
    """The work is a whole run with restarted containers."""
    return prepare_run(folder, sizes, trust="strict")


def prepare_changed(folder: Path, sizes: Sizes) -> Work:
    """The work is a whole run whose graders all judge in fresh containers."""
    return prepare_run(folder, sizes, agent=f"{AGENT}; echo changed > /usr/changed")


def prepare_run(folder: Path, sizes: Sizes, *, trust: str = "standard", agent: str = AGENT) -> Work:
    """Load an experiment; the work is to run it in containers."""
    tasks, replications = split_trials(sizes["trials"])
    shape = Shape(tasks=tasks, replications=replications, concurrency=sizes["concurrency"], sandbox="docker")
    return run_shape(folder, replace(shape, image=make_image(), trust=trust, agent=agent), sizes["trials"])


def run_shape(folder: Path, shape: Shape, trials: int) -> Work:
    """Load an experiment of a shape; the work is to run it."""
    experiment = make_experiment(folder / "experiment", shape)
    options = RunOptions(runs_dir=folder / "runs", secrets={}, run_id="bench")

    async def watch(live: Live) -> None:
        """Nobody looks."""

    def work() -> Mapping[str, float]:
        end = run_alone(run_experiment(experiment, options, watch))
        assert end.exit_code == ExitCode.SUCCESS, end.status.error
        assert end.status.counts.passed == trials, end.status.counts
        return split_time(end.paths.timings)

    return work


def split_time(timings: Path) -> dict[str, float]:
    """Seconds of a trial by part, on average; what is left is the engine's: create, start, end."""
    attempts = [json.loads(line)["attempts"][-1] for line in timings.read_text().splitlines()]
    parts = {
        part: statistics.mean(attempt["phases_s"].get(part, 0.0) for attempt in attempts) for part in PARTS
    }
    whole = statistics.mean(
        (moment(attempt["ended_at"]) - moment(attempt["started_at"])).total_seconds() for attempt in attempts
    )
    return {**parts, "the engine": whole - sum(parts.values())}


def moment(text: str) -> datetime:
    return datetime.fromisoformat(text)


def measure(sizes: Sizes, rounds: int) -> Found:
    taken = take_rounds("docker", tuple(SIDES), sizes, rounds)
    return Found(figures=tuple(figures(taken, sizes)), samples=walls(taken))


def figures(taken: Rounds, sizes: Sizes) -> list[Figure]:
    """Milliseconds a trial, where they go, and the ratios."""
    trials = sizes["trials"]
    found = [
        Figure(name=side, value=1000 * taken.median(side) / trials, unit="ms per trial") for side in SIDES
    ]
    for part in (*PARTS, "the engine"):
        seconds = statistics.median(sample.extra[part] for sample in taken.sides["ours"])
        found.append(Figure(name=f"of a trial: {part}", value=1000 * seconds, unit="ms"))
    strict, ours = taken.ratio("strict", "bare"), taken.ratio("ours", "bare")
    found.append(Figure(name="changed to ours", value=taken.ratio("changed", "ours"), unit="x"))
    found.append(Figure(name="strict ratio", value=strict, unit="x", bar=Bar("at_most", 2)))
    found.append(Figure(name="ratio", value=ours, unit="x", bar=Bar("at_most", 1.15)))
    return found


def walls(taken: Rounds) -> dict[str, list[float]]:
    return {name: [sample.wall_s for sample in samples] for name, samples in taken.sides.items()}


SIDES: Final[dict[str, Side]] = {
    "bare": prepare_bare,
    "ours": prepare_ours,
    "strict": prepare_strict,
    "changed": prepare_changed,
}
BENCH: Final = Bench(
    name="docker",
    work="trials in containers: preflight, run, summary",
    against="bare docker run --rm of one shell command a trial, doing the same",
    sizes={"trials": 80, "concurrency": 4},
    rounds=3,
    measure=measure,
)
