"""`bench layer`: what it costs to take the layer of a trial whose agent works in a folder of its image.

Taken: agents change ten files of the image's folder, and what they did is kept, so each barrier takes a
layer. Left: the same, and nobody wants it. Both are whole runs, from preflight to summary.
"""

from pathlib import Path
from typing import Final

from bench.catalogue import Bench, Found
from bench.docker import make_image, run_shape, walls
from bench.figures import Bar, Figure
from bench.rounds import Sample, Side, Sizes, Work, take_rounds
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
    barriers = (
        Figure(name=f"barrier, {side}", value=1000 * taken.median(side, _barrier), unit="ms")
        for side in SIDES
    )
    ratio = Figure(name="ratio", value=taken.ratio("taken", "left"), unit="x", bar=Bar("at_most", 1.05))
    return Found(figures=(*each, *barriers, ratio), samples=walls(taken))


def _barrier(sample: Sample) -> float:
    return sample.extra["barrier"]


SIDES: Final[dict[str, Side]] = {"left": prepare_left, "taken": prepare_taken}
BENCH: Final = Bench(
    name="layer",
    work="trials whose agents change ten files in a folder of their image, which are kept as a layer",
    against="the same, and nothing is kept",
    sizes={"trials": 40, "concurrency": 2},
    rounds=3,
    measure=measure,
)
