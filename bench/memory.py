"""`bench memory`: the coordinator's peak memory, at few trials and at many.

One run of each size on the idle executor, in a process of its own, tallied as it goes: 1,000 tasks, more
replications. Out: the statistics at a run's end, whose libraries alone are twice as large; they are loaded
once, whatever the size.
"""

import asyncio
from pathlib import Path
from typing import Final

from bench.catalogue import Bench, Found
from bench.engine import coordinate, make_run
from bench.figures import Bar, Figure
from bench.rounds import Sample, Side, Sizes, Work, take_rounds
from labrunner.analysis.sums.tally import Tally
from labrunner.records.rows import SlotRows

FEW: Final = 1_000


def prepare_few(folder: Path, sizes: Sizes) -> Work:
    """A small run."""
    return prepare(folder, {**sizes, "trials": min(FEW, sizes["trials"])})


def prepare(folder: Path, sizes: Sizes) -> Work:
    """Make a run; the work is to carry it out, and to look at our own peak."""
    experiment, paths = make_run(folder, sizes)
    tally = Tally.of(experiment)

    def count(rows: SlotRows) -> None:
        tally.add(rows.trial)

    def work() -> dict[str, float]:
        asyncio.run(coordinate(experiment, paths, count))
        return {"peak_mb": peak_mb()}

    return work


def peak_mb(pid: int | str = "self") -> float:
    """The largest resident set that a process has had. Unlike getrusage's, it knows of no parent."""
    status = Path(f"/proc/{pid}/status").read_text()
    line = next(line for line in status.splitlines() if line.startswith("VmHWM:"))
    return int(line.split()[1]) / 1024


def measure(sizes: Sizes, rounds: int) -> Found:
    taken = take_rounds("memory", tuple(SIDES), sizes, rounds)
    few, many = (taken.median(side, _peak) for side in SIDES)
    return Found(
        figures=(
            Figure(name=f"{min(FEW, sizes['trials']):,} trials", value=few, unit="MB"),
            Figure(name=f"{sizes['trials']:,} trials", value=many, unit="MB", bar=Bar("at_most", 150)),
            Figure(name="ratio", value=taken.ratio("many", "few", _peak), unit="x", bar=Bar("at_most", 1.3)),
        ),
        samples={name: [_peak(sample) for sample in samples] for name, samples in taken.sides.items()},
    )


def _peak(sample: Sample) -> float:
    return sample.extra["peak_mb"]


SIDES: Final[dict[str, Side]] = {"few": prepare_few, "many": prepare}
BENCH: Final = Bench(
    name="memory",
    work="the coordinator's peak memory at 100,000 trials",
    against="itself at 1,000 trials",
    sizes={"trials": 100_000, "concurrency": 16},
    rounds=3,
    measure=measure,
)
