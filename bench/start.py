"""`bench start`: how long `lab` takes to say what it can do, and to run one trial from end to end.

Against the same interpreter that does nothing. Every program's bytecode is compiled beforehand, as an
installation does.
"""

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from bench.catalogue import Bench, Found
from bench.figures import Bar, Figure
from bench.rounds import Side, Sizes, Work, take_rounds
from bench.workload import Shape, write_experiment

LAB: Final = str(Path(sys.executable).with_name("lab"))


def prepare_python(folder: Path, sizes: Sizes) -> Work:
    """An interpreter that does nothing."""
    return repeat([sys.executable, "-c", "pass"], folder, sizes)


def prepare_help(folder: Path, sizes: Sizes) -> Work:
    """The help page."""
    return repeat([LAB, "--help"], folder, sizes)


def prepare_run(folder: Path, sizes: Sizes) -> Work:
    """A run of one process trial."""
    shape = Shape(tasks=1, replications=1, concurrency=1, sandbox="process")
    write_experiment(folder, shape)
    return repeat([LAB, "run"], folder, sizes)


def repeat(argv: Sequence[str], folder: Path, sizes: Sizes) -> Work:
    """The work is to run a command several times, once before for warm caches."""

    def run() -> None:
        subprocess.run(argv, cwd=folder, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    run()

    def work() -> dict[str, float]:
        for _ in range(sizes["starts"]):
            run()
        return {}

    return work


def measure(sizes: Sizes, rounds: int) -> Found:
    taken = take_rounds("start", tuple(SIDES), sizes, rounds)
    python, help_page, run = (taken.median(side) / sizes["starts"] for side in SIDES)
    return Found(
        figures=(
            Figure(name="python -c pass", value=1000 * python, unit="ms"),
            Figure(name="lab --help", value=1000 * help_page, unit="ms"),
            Figure(name="lab run of one trial", value=taken.ratio("run", "python"), unit="x"),
            Figure(name="lab run of one trial", value=run, unit="s", bar=Bar("at_most", 0.8)),
            Figure(name="ratio", value=taken.ratio("help", "python"), unit="x", bar=Bar("at_most", 5)),
        ),
        samples={
            name: [sample.wall_s / sizes["starts"] for sample in samples]
            for name, samples in taken.sides.items()
        },
    )


SIDES: Final[dict[str, Side]] = {"python": prepare_python, "help": prepare_help, "run": prepare_run}
BENCH: Final = Bench(
    name="start",
    work="`lab --help`, and `lab run` of one process trial from end to end",
    against="`python -c pass` of the same interpreter",
    sizes={"starts": 5},
    rounds=5,
    measure=measure,
)
