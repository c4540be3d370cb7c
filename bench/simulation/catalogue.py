"""Every study with its settings, short and long, and the bounds that it has to keep.

Rule: a bound is broken only where the count can't be luck: three standard errors of the simulation are
allowed.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any, Final

from bench.simulation import both, studies, together
from bench.simulation.populations import KINDS, LAYOUTS, PAIRS, SAME, SCORED
from bench.simulation.studies import Figures

Setting = tuple[Any, ...]  # what a study takes, but for the number of runs
SINGLES: Final = {f"{tasks} tasks": (1,) * tasks for tasks in (8, 10, 20, 50)}
GROUPED: Final = {"8 groups of 5": (5,) * 8, "12 groups of 4": (4,) * 12}
TAKEN: Final = SINGLES | GROUPED


@dataclass(frozen=True, slots=True, kw_only=True)
class Study:
    """What is simulated, and what has to hold."""

    name: str
    run: Callable[..., Figures]
    quick: Sequence[Setting]
    quick_runs: int
    long: Sequence[Setting]
    long_runs: int
    bounds: Mapping[str, tuple[float, float]]
    """Between which each figure has to lie."""
    apart: Mapping[tuple[int, int], Mapping[str, tuple[float, float]]] = field(default_factory=dict)
    """The same for settings of so many tasks and trials, where the others are not kept."""
    options: Mapping[str, object]

    def broken(self, setting: Setting, found: Figures, runs: int) -> list[str]:
        """Bounds that can't have been missed by luck, in sentences."""
        told = []
        for name, (low, high) in {**self.bounds, **self.apart.get(setting[:2], {})}.items():
            value = found[name]
            if value < low - _slack(low, runs) or value > high + _slack(high, runs):
                told.append(f"{self.name} {setting}: {name} is {value:.4f}, not within {low} to {high}")
        return told


def _slack(bound: float, runs: int) -> float:
    return 3 * math.sqrt(max(0.0, bound * (1 - bound)) / runs) if 0 < bound < 1 else 0.0


RATES: Final = (0.01, 0.02, 0.1, 0.5, 0.9, 0.95, 0.98, 0.99)
REPEATED: Final = tuple(f"{name} {k}" for k in (2, 3, 4, 5) for name in ("any", "all"))
PAIRED: Final = [*product((6, 7, 8, 10, 20), (1, 2, 3, 5), PAIRS), *product((50,), (1, 3), PAIRS)]
CATALOGUE: Final = (
    Study(
        name="mean",
        run=studies.cover_mean,
        quick=[
            *product((10, 50), (1, 5), ("u-shaped", "always or never"), (0.02, 0.9, 0.95, 0.99)),
            *product((20,), (1, 3), KINDS, (0.5, 0.98, 0.993)),
        ],
        quick_runs=4_000,
        long=list(product((10, 20, 50, 100), (1, 3, 5), KINDS, RATES)),
        long_runs=10_000,
        bounds={"coverage": (0.93, 1.0)},
        options={},
    ),
    Study(
        name="pass@k",
        run=studies.cover_repeated,
        quick=list(product((10, 30), (5,), ("u-shaped",), (0.3, 0.95, 0.98))),
        quick_runs=500,
        long=list(product((10, 30, 100), (5,), ("mild", "u-shaped"), (0.02, 0.1, 0.5, 0.8, 0.95, 0.98))),
        long_runs=1_500,
        bounds=dict.fromkeys(REPEATED, (0.94, 1.0)),
        options={},
    ),
    Study(
        name="no difference",
        run=studies.judge_pairs,
        quick=[*product((6, 7, 8, 10), (1, 3), PAIRS), *product((20,), (1,), PAIRS)],
        quick_runs=4_000,
        long=PAIRED,
        long_runs=10_000,
        bounds={"shown": (0.0, 0.055), "coverage": (0.93, 1.0)},
        options={"is_better": False},
    ),
    Study(
        name="a difference",
        run=studies.judge_pairs,
        quick=list(product((6, 7, 8, 10), (1, 3), ("alike 0.5", "u-shaped", "unrelated"))),
        quick_runs=4_000,
        long=PAIRED,
        long_runs=10_000,
        bounds={"coverage": (0.93, 1.0), "lost": (-1.0, 0.05)},
        apart={(tasks, 2): {"lost": (-1.0, 0.065)} for tasks in (6, 7, 8)},
        options={"is_better": True},
    ),
    Study(
        name="these tasks",
        run=studies.judge_here,
        quick=list(product((6, 10), (1, 3), SAME)),
        quick_runs=250,
        long=[setting for setting in PAIRED if setting[2] in SAME],
        long_runs=4_000,
        bounds={"here": (0.0, 0.055)},
        options={},
    ),
    Study(
        name="both questions",
        run=both.judge_both,
        quick=[*product((8,), (1, 3), ("alike 0.5", "u-shaped")), (8, 2, "alike 0.5"), (12, 3, "alike 0.5")],
        quick_runs=100,
        long=list(product((6, 8, 12), (1, 2, 3), ("alike 0.5", "u-shaped"))),
        long_runs=6_000,
        bounds={"here": (0.0, 0.06), "odd": (0.0, 0.0), "cost": (-1.0, 0.05)},
        options={},
    ),
    Study(
        name="scores on these tasks",
        run=both.cover_scores,
        quick=[*product((5,), (2,), SCORED), (1, 5, "normal")],
        quick_runs=200,
        long=list(product((1, 5, 12), (2, 5), SCORED)),
        long_runs=10_000,
        bounds={"scores": (0.93, 1.0)},
        options={},
    ),
    Study(
        name="groups, mean",
        run=studies.cover_groups,
        quick=[
            *product(("one of 20, nine singles", "four of 10, twenty singles"), (0.3,), (0.5, 0.9), (1,)),
            ("10 groups of 5", 0.7, 0.9, 1),
        ],
        quick_runs=250,
        long=list(product(LAYOUTS, (0.0, 0.1, 0.3, 0.7), (0.5, 0.9), (1,))),
        long_runs=2_000,
        bounds={"coverage": (0.93, 1.0)},
        options={},
    ),
    Study(
        name="groups, difference",
        run=studies.judge_groups,
        quick=[
            *product(("10 groups of 5", "one of 20, nine singles"), (0.0, 0.3, 1.0), (3,)),
            ("geometric, 1 to 32", 1.0, 1),
        ],
        quick_runs=250,
        long=list(product(LAYOUTS, (0.0, 0.3, 1.0), (1, 3))),
        long_runs=2_000,
        bounds={"coverage": (0.93, 1.0)},
        options={},
    ),
    Study(
        name="run again, rates",
        run=together.cover_rerun,
        quick=[*product((3, 10), (1, 5), ("mild", "u-shaped"), (0.5, 0.95))],
        quick_runs=1_000,
        long=list(product((1, 3, 5, 10, 30), (1, 3, 10), KINDS, (0.1, 0.5, 0.9, 0.98))),
        long_runs=2_000,
        bounds={"coverage": (0.93, 1.0)},
        options={},
    ),
    Study(
        name="run again, scores",
        run=together.cover_rerun_scores,
        quick=list(product((1, 5), (2, 5), (0.0, 1.0))),
        quick_runs=1_000,
        long=list(product((1, 3, 5, 10, 30), (2, 3, 5, 10), (0.0, 0.5, 1.0))),
        long_runs=4_000,
        bounds={"coverage": (0.93, 1.0)},
        options={},
    ),
    Study(
        name="families",
        run=together.hold_family,
        quick=[(2, 1), (5, 0), (5, 1), (5, 5)],
        quick_runs=500,
        long=[(2, 0), (2, 1), (2, 2), (3, 0), (3, 1), (3, 3), (5, 0), (5, 1), (5, 3), (5, 5)],
        long_runs=5_000,
        bounds={"held": (0.9, 1.0), "misled": (0.0, 0.055)},
        apart={(count, count): {"held": (0.94, 1.0)} for count in (2, 3, 5)},
        options={},
    ),
    Study(
        name="power",
        run=studies.reach_power,
        quick=[(SINGLES["10 tasks"], 5), (SINGLES["20 tasks"], 3), (GROUPED["8 groups of 5"], 1)],
        quick_runs=300,
        long=list(product(TAKEN.values(), (1, 3, 5))),
        long_runs=2_000,
        bounds={"shown": (0.75, 0.86)},
        options={},
    ),
    Study(
        name="retries",
        run=studies.alarm_retries,
        quick=[(50, 3, 0.0), (50, 3, 0.3)],
        quick_runs=200,
        long=list(product((20, 50, 200), (3,), (0.0, 0.1, 0.3))),
        long_runs=1_000,
        bounds={"rate": (0.0, 0.055), "odds": (0.0, 0.055)},
        options={},
    ),
    Study(
        name="no outage",
        run=studies.alarm_outage,
        quick=list(product(("by_task", "balanced"), (3,), (0.02, 0.1), (0.0,))),
        quick_runs=100,
        long=list(product(("by_task", "balanced"), (1, 3, 5), (0.0, 0.02, 0.05, 0.1), (0.0,))),
        long_runs=500,
        bounds={"told": (0.0, 0.01)},
        options={},
    ),
    Study(
        name="an outage",
        run=studies.alarm_outage,
        quick=list(product(("by_task", "balanced"), (3,), (0.02,), (0.2, 0.6, 0.9))),
        quick_runs=40,
        long=list(product(("by_task", "balanced"), (1, 3, 5), (0.0, 0.05), (0.15, 0.3, 0.6, 0.9))),
        long_runs=100,
        bounds={"told": (0.9, 1.0)},
        options={},
    ),
)


def find(name: str) -> Study:
    return next(each for each in CATALOGUE if each.name == name)
