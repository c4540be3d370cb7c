import numpy as np
import pytest

from labrunner.analysis.comparison import compare_all
from labrunner.analysis.power import Pilot, estimate_pilots, make_grid
from tests.analysis.arms import make_arm

U_SHAPED = Pilot(
    baseline="a",
    other="b",
    measure="pass",
    tasks=100,
    within=2 * 0.125,
    between=2 * 0.125 * 0.2,
    correlation=None,
)
"""0/1 scores whose difficulty is Beta(0.5, 0.5), with a correlation of 0.8 between two arms."""


@pytest.mark.parametrize(
    ("tasks", "points"),
    [
        (20, (34, 23, 20, 17)),
        (50, (22, 15, 13, 11)),
        (100, (15, 10, 9, 8)),
        (200, (11, 7, 6, 5)),
        (500, (7, 5, 4, 3)),
    ],
)
def test_the_grid_gives_the_worked_table(tasks: int, points: tuple[int, ...]) -> None:
    grid = make_grid(U_SHAPED, tasks=100, replications=3)
    row = dict(grid.rows)[tasks]
    assert [100 * (value or 0) for value in row] == pytest.approx(points, abs=0.6)
    assert grid.planned == dict(grid.rows)[100][grid.replications.index(3)]


def test_a_pilots_variances_are_found_again() -> None:
    chance = np.random.default_rng(12)
    rates = chance.beta(0.5, 0.5, size=3_000)
    before = {
        f"t{n}": chance.binomial(1, rate, size=4).astype(float).tolist() for n, rate in enumerate(rates)
    }
    after = {f"t{n}": chance.binomial(1, rate, size=4).astype(float).tolist() for n, rate in enumerate(rates)}
    (pilot,) = estimate_pilots([make_arm("a", before), make_arm("b", after)])
    assert pilot.within == pytest.approx(2 * 0.125, rel=0.05)
    assert pilot.between == pytest.approx(0.0, abs=0.006)


def test_at_the_pilots_own_size_it_says_what_the_comparison_says() -> None:
    chance = np.random.default_rng(14)
    arms = [
        make_arm(name, {f"t{n}": chance.integers(0, 2, size=3).astype(float).tolist() for n in range(40)})
        for name in ("a", "b")
    ]
    (pilot,) = estimate_pilots(arms)
    compared = compare_all([(arms[0], arms[1])])[0].detectable
    assert pilot.between > 0 or compared is not None
    assert pilot.detectable(40, 3) == pytest.approx(compared, rel=0.35)


def test_without_repeats_only_more_tasks_can_be_foretold() -> None:
    arms = [
        make_arm(name, {f"t{n}": [float((n + shift) % 3 == 0)] for n in range(30)})
        for shift, name in enumerate("ab")
    ]
    (pilot,) = estimate_pilots(arms)
    assert pilot.within is None
    assert pilot.detectable(30, 3) is None
    assert pilot.detectable(30, 1) == pytest.approx(compare_all([(arms[0], arms[1])])[0].detectable)
    assert pilot.detectable(120, 1) == pytest.approx((pilot.detectable(30, 1) or 0) / 2)


def test_one_arm_is_measured_against_its_like() -> None:
    arm = make_arm("a", {f"t{n}": [float(n % 2), float(n % 3 == 0)] for n in range(20)})
    (pilot,) = estimate_pilots([arm])
    assert (pilot.other, pilot.correlation) == (None, 0.8)
    assert estimate_pilots([make_arm("a", {"t0": [1.0], "t1": [0.0]})]) == ()
