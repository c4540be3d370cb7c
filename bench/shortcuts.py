"""`bench shortcuts`: what each shortcut of the code saves. One that saves next to nothing is to go.

Each is measured against the same work the long way round, which every shortcut has and takes by itself:

- `analysis/inference/special.py`: `lab show` of a small run; the long way, scipy's functions come whole.
- `cli/plainwords.py`: `lab query` of a small run; the long way, a letter beyond ASCII makes Typer check all.
- `query/reach.py`: a group-by over a long run; the long way, a star means every column.
- `records/encoding/ids.py`: trials that do nothing; the long way, the system is called for each token.

Processor time counts, of the whole tree of processes: what a shortcut saves on any machine, however busy.
The ratio is that of the shortcut that saves least. One that misses its bar is to be taken out of the code.
"""

import asyncio
import secrets
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from bench import engine
from bench.analysis import SQL, make_run
from bench.catalogue import Bench, Found
from bench.figures import Bar, Figure
from bench.rounds import Rounds, Sample, Side, Sizes, Work, take_rounds
from labrunner.runner import plan

SMALL: Final = 100
"""Trials of a run that is small."""
LAB: Final = "import sys; from labrunner.cli.main import run; sys.exit(run(sys.argv[1:]))"
ALL_OF_SCIPY: Final = f"import scipy.special; {LAB}"
EVERY_COLUMN: Final = "with everything as (select * from trials) " + SQL.replace("trials", "everything")
WORTH: Final = Bar("at_least", 1.02)


def show(folder: Path, sizes: Sizes, program: str) -> Work:
    """Make a small run; the work is to show it."""
    make_run(folder, {"trials": SMALL})
    return call([sys.executable, "-c", program, "show", "bench"], folder, sizes)


def query(folder: Path, sizes: Sizes, sql: str, trials: int) -> Work:
    """Make a run; the work is to ask it."""
    make_run(folder, {"trials": trials})
    return call([sys.executable, "-c", LAB, "query", "bench", sql], folder, sizes)


def call(argv: Sequence[str], folder: Path, sizes: Sizes) -> Work:
    """The work is to run a command several times, once before for warm caches."""

    def run() -> None:
        subprocess.run(argv, cwd=folder, check=True, stdout=subprocess.DEVNULL)

    run()

    def work() -> None:
        for _ in range(sizes["calls"]):
            run()

    return work


def dispatch(folder: Path, sizes: Sizes, *, token_by_token: bool) -> Work:
    """Make a run; the work is to carry it out."""
    if token_by_token:
        vars(plan)["make_token"] = lambda: secrets.token_hex(16)
    experiment, paths = engine.make_run(folder, {"trials": sizes["dispatches"], "concurrency": 16})

    def work() -> None:
        asyncio.run(engine.coordinate(experiment, paths, lambda _: None))

    return work


SIDES: Final[dict[str, Side]] = {
    "show": lambda folder, sizes: show(folder, sizes, LAB),
    "show_long": lambda folder, sizes: show(folder, sizes, ALL_OF_SCIPY),
    "words": lambda folder, sizes: query(folder, sizes, SQL, SMALL),
    "words_long": lambda folder, sizes: query(folder, sizes, f"{SQL} -- ü", SMALL),
    "columns": lambda folder, sizes: query(folder, sizes, SQL, sizes["trials"]),
    "columns_long": lambda folder, sizes: query(folder, sizes, EVERY_COLUMN, sizes["trials"]),
    "tokens": lambda folder, sizes: dispatch(folder, sizes, token_by_token=False),
    "tokens_long": lambda folder, sizes: dispatch(folder, sizes, token_by_token=True),
}
_TOLD: Final = {
    "show": "lab show, all of scipy.special",
    "words": "lab query, checked by pydantic",
    "columns": "lab query, every column",
    "tokens": "dispatches, token by token",
}


def measure(sizes: Sizes, rounds: int) -> Found:
    taken = take_rounds("shortcuts", tuple(SIDES), sizes, rounds)
    saved = {name: taken.ratio(f"{name}_long", name, _processor_s) for name in _TOLD}
    return Found(
        figures=(
            *(Figure(name=told, value=saved[name], unit="x", bar=WORTH) for name, told in _TOLD.items()),
            *(_seconds(taken, name, told, sizes) for name, told in _TOLD.items() if name != "tokens"),
            Figure(name="ratio", value=min(saved.values()), unit="x", bar=WORTH),
        ),
        samples={name: [sample.cpu_s for sample in samples] for name, samples in taken.sides.items()},
    )


def _seconds(taken: Rounds, name: str, told: str, sizes: Sizes) -> Figure:
    more = taken.median(f"{name}_long", _processor_s) - taken.median(name, _processor_s)
    return Figure(name=f"{told}, more", value=1000 * more / (1 + sizes["calls"]), unit="ms")


def _processor_s(sample: Sample) -> float:
    """The call that warms caches up is in it on both sides."""
    return sample.cpu_s


BENCH: Final = Bench(
    name="shortcuts",
    work="what four shortcuts save: `lab show`, `lab query` twice, dispatches",
    against="the same by the shortcut; the ratio is that of the one that saves least",
    sizes={"calls": 3, "trials": 100_000, "dispatches": 10_000},
    rounds=5,
    measure=measure,
)
