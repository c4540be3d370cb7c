"""`bench layer`: what it costs to take the layer of a trial whose agent works in a folder of its image.

Taken: agents change ten files of the image's folder, and what they did is kept, so each barrier takes a
layer. Left: the same, and nobody wants it. Both are whole runs, from preflight to summary.

The ratio is of a trial: what its own parts (barrier, collecting and the rest) take longer, beside all that a
trial takes where nothing is kept. What the engine takes to make, start and remove containers varies by a
tenth from one run to the next, which is more than a layer costs: whole runs are told, and held to less.
"""

import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Final

from bench.catalogue import Bench, Found
from bench.docker import PARTS, make_image, run_shape, walls
from bench.figures import Bar, Figure
from bench.rounds import Rounds, Sample, Side, Sizes, Work, take_rounds
from bench.workload import AGENT, Shape, split_trials
from tests.kit.docker.testimages import Recipe

CHANGED: Final = 10
BENCH_FOLDER: Final = Recipe(
    name="benchlayer",
    files=tuple((f"work/src/{number}.txt", "as the image has it\n" * 50) for number in range(200)),
)
WORK: Final = "; ".join((*(f"echo changed >> src/{number}.txt" for number in range(CHANGED - 1)), AGENT))


def prepare_taken(folder: Path, sizes: Sizes) -> Work:
    """The work is a whole run that keeps what agents left."""
    return prepare(folder, sizes, keep="always")


def prepare_left(folder: Path, sizes: Sizes) -> Work:
    """The work is a whole run that keeps nothing of it."""
    return prepare(folder, sizes, keep="never")


def prepare(folder: Path, sizes: Sizes, *, keep: str) -> Work:
    tasks, replications = split_trials(sizes["trials"])
    shape = Shape(
        tasks=tasks,
        replications=replications,
        concurrency=sizes["concurrency"],
        sandbox="docker",
        image=make_image(BENCH_FOLDER),
        agent=WORK,
        workdir="/work",
        keep=keep,
        on_system_change="flag",
    )
    return run_shape(folder, shape, sizes["trials"])


def measure(sizes: Sizes, rounds: int) -> Found:
    taken = take_rounds("layer", tuple(SIDES), sizes, rounds)
    each = (
        Figure(name=side, value=1000 * taken.median(side) / sizes["trials"], unit="ms per trial")
        for side in SIDES
    )
    parts = (
        Figure(name=f"{part}, {side}", value=1000 * taken.median(side, _seconds_of(part)), unit="ms")
        for part in ("barrier", "collect")
        for side in SIDES
    )
    whole = Figure(name="whole runs", value=taken.ratio("taken", "left"), unit="x", bar=Bar("at_most", 1.15))
    ratio = Figure(name="ratio", value=find_ratio(taken), unit="x", bar=Bar("at_most", 1.05))
    return Found(figures=(*each, *parts, whole, ratio), samples=walls(taken))


def find_ratio(taken: Rounds) -> float:
    """A trial whose layer is taken, in terms of one whose is not; the median over rounds."""
    pairs = zip(taken.sides["taken"], taken.sides["left"], strict=True)
    return statistics.median(
        (sum(left.extra.values()) + _own(one) - _own(left)) / sum(left.extra.values()) for one, left in pairs
    )


def _own(sample: Sample) -> float:
    """Seconds of a trial that are not the engine's."""
    return sum(sample.extra[part] for part in PARTS)


def _seconds_of(part: str) -> Callable[[Sample], float]:
    return lambda sample: sample.extra[part]


SIDES: Final[dict[str, Side]] = {"left": prepare_left, "taken": prepare_taken}
BENCH: Final = Bench(
    name="layer",
    work="trials whose agents change ten files in a folder of their image, which are kept as a layer",
    against="the same, and nothing is kept",
    sizes={"trials": 40, "concurrency": 2},
    rounds=3,
    measure=measure,
)
