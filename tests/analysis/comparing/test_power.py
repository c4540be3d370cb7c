from dataclasses import replace

import numpy as np
import pytest
from scipy import stats  # type: ignore[import-untyped] # scipy has no types

from labrunner.analysis.comparing.comparison import compare_all
from labrunner.analysis.comparing.power import (
    Layout,
    Pilot,
    estimate_pilots,
    layout_of,
    make_grid,
)
from labrunner.analysis.describing.variance import required_shift
from labrunner.analysis.inference.clusters import freedom_of
from labrunner.display.results.power import BEST_CASE, show_power
from tests.kit.analysis.arms import make_arm
from tests.kit.display.printing import to_text

U_SHAPED = Pilot(
    baseline="a",
    other="b",
    measure="pass",
    tasks=100,
    units=100,
    within=2 * 0.125,
    between=2 * 0.125 * 0.2,
    between_groups=0.0,
    correlation=None,
    is_rate=True,
    reach=0.5,
)
"""0/1 scores whose difficulty is Beta(0.5, 0.5), with a correlation of 0.8 between two arms."""


def alone(tasks: int) -> Layout:
    return Layout(sizes=(1,) * tasks)


@pytest.mark.parametrize(
    ("tasks", "points"),
    [(20, (36, 24, 21, 18)), (50, (22, 15, 13, 11)), (100, (15, 10, 9, 8)), (500, (7, 5, 4, 3))],
)
def test_the_grid_gives_the_worked_table(tasks: int, points: tuple[int, ...]) -> None:
    grid = make_grid(U_SHAPED, alone(100), replications=3)
    row = dict(grid.rows)[tasks]
    assert [100 * (value or 0) for value in row] == pytest.approx(points, abs=0.7)
    assert grid.planned == dict(grid.rows)[100][grid.replications.index(3)]


def test_what_is_foretold_is_the_noncentral_t() -> None:
    for tasks, share in ((8, 1 / 8), (30, 2**-25)):
        found = U_SHAPED.detectable(alone(tasks), tasks, 5)
        assert found is not None
        error = ((0.05 + 0.25 / 5) / tasks + share / 25 / (tasks * (tasks - 1))) ** 0.5
        limit = stats.t.ppf(0.975, tasks - 1)
        assert stats.nct.sf(limit, tasks - 1, found / error) == pytest.approx(0.8, abs=1e-4)


def test_unequal_groups_have_the_freedom_that_comparing_them_will_have() -> None:
    sizes = (8, 1, 1, 1, 1, 1, 1, 1, 1, 1)
    grouped = replace(U_SHAPED, between_groups=0.1, reach=None)
    found = grouped.detectable(Layout(sizes=sizes), sum(sizes), 5)
    assert found is not None
    single = 0.05 + 0.25 / 5
    error = (0.1 * sum(n * n for n in sizes) / sum(sizes) ** 2 + single / sum(sizes)) ** 0.5
    assert found / error == pytest.approx(required_shift(round(freedom_of(sizes, 0.5), 3)), rel=0.01)


def test_a_pilot_in_which_nothing_failed_promises_no_more_than_a_difference_leaves_of_luck() -> None:
    perfect = replace(U_SHAPED, within=0.0, between=0.0)
    found = perfect.detectable(alone(12), 12, 3)
    assert found is not None
    error = (found * (1 - found) / 36) ** 0.5
    assert stats.nct.sf(stats.t.ppf(0.975, 11), 11, found / error) == pytest.approx(0.8, abs=1e-4)
    assert replace(perfect, is_rate=False).detectable(alone(12), 12, 3) is None


def test_a_pilot_without_spread_leaves_open_how_much_there_is() -> None:
    clean = replace(U_SHAPED, within=0.0, between=0.0, tasks=12, units=12)
    grid = make_grid(clean, alone(12), replications=3, detect=0.4)
    assert grid.planned is not None
    assert grid.planned_high is not None
    assert grid.planned == grid.planned_low
    # One of ten pilots of twelve tasks shows no spread where this share of tasks differs.
    share = 1 - 0.1 ** (1 / 12)
    shift = required_shift(11.0)
    assert grid.planned_high == pytest.approx(shift * (share / 12) ** 0.5, rel=1e-2)
    assert grid.planned_high > 1.1 * grid.planned
    (need,) = [each for each in grid.needs if each.replications == 5]
    assert need.tasks is not None
    assert need.tasks_high is not None
    assert need.tasks_high > need.tasks
    assert replace(clean, is_rate=False).doubt[1].least == 0.0


def test_a_plan_of_several_comparisons_promises_what_its_family_leaves() -> None:
    alone_, family = (replace(U_SHAPED, family=count).detectable(alone(30), 30, 3) for count in (1, 4))
    assert alone_ is not None
    assert family is not None
    error = alone_ / required_shift(29.0)
    limit = stats.t.ppf(1 - 0.05 / 8, 29)
    assert stats.nct.sf(limit, 29, family / error) == pytest.approx(0.8, abs=1e-4)
    (need, *_) = make_grid(replace(U_SHAPED, family=4), alone(50), replications=1, detect=0.2).needs
    assert need.tasks is not None
    assert need.trials == 5 * need.tasks


def test_too_few_tasks_and_differences_beyond_the_scale_are_not_promised() -> None:
    assert U_SHAPED.detectable(alone(5), 5, 10) is None
    assert U_SHAPED.detectable(alone(6), 6, 1) is None  # 1.0 would be needed, there is room for 0.5
    assert make_grid(U_SHAPED, alone(5), replications=3).planned is None


def test_how_many_tasks_it_takes_is_the_inverse() -> None:
    grid = make_grid(U_SHAPED, alone(50), replications=3, detect=0.1)
    for need in grid.needs:
        assert need.tasks is not None
        assert need.trials == 2 * need.tasks * need.replications
        enough, fewer = (
            U_SHAPED.detectable(alone(50), count, need.replications) for count in (need.tasks, need.tasks - 1)
        )
        assert enough is not None
        assert fewer is not None
        assert enough <= 0.1 < fewer
        assert need.tasks_low is not None
        assert need.tasks_high is not None
        assert need.tasks_low < need.tasks < need.tasks_high


def test_a_pilots_own_uncertainty_is_that_of_its_variance() -> None:
    low, high = U_SHAPED.doubt
    assert (low.factor, high.factor) == pytest.approx(
        (99 / stats.chi2.ppf(0.9, 99), 99 / stats.chi2.ppf(0.1, 99)), rel=1e-6
    )


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


def test_groups_widen_what_is_foretold_as_they_widen_the_comparison() -> None:
    chance = np.random.default_rng(2)
    groups = {f"t{n}": f"g{n // 8}" for n in range(80)}
    shift = chance.normal(0, 0.3, size=10)
    before = {f"t{n}": [float(v) for v in chance.normal(0, 0.1, 3)] for n in range(80)}
    after = {f"t{n}": [float(v) for v in chance.normal(shift[n // 8], 0.1, 3)] for n in range(80)}
    arms = [
        make_arm(name, dict(scores), groups=dict(groups), metric="points")
        for name, scores in (("a", before), ("b", after))
    ]
    (pilot,) = estimate_pilots(arms)
    compared = compare_all([(arms[0], arms[1])])[0].detectable
    assert compared is not None
    assert pilot.detectable(layout_of(list(groups.values())), 80, 3) == pytest.approx(compared, rel=0.02)
    ungrouped = pilot.detectable(alone(80), 80, 3)
    assert ungrouped is not None
    assert ungrouped < 0.6 * compared


def test_without_repeats_only_more_tasks_can_be_foretold() -> None:
    arms = [
        make_arm(name, {f"t{n}": [float((n + shift) % 3 == 0)] for n in range(30)})
        for shift, name in enumerate("ab")
    ]
    (pilot,) = estimate_pilots(arms)
    assert pilot.within is None
    assert pilot.detectable(alone(30), 30, 3) is None
    compared = compare_all([(arms[0], arms[1])])[0].detectable
    assert pilot.detectable(alone(30), 30, 1) == pytest.approx(compared)


def test_one_arm_is_measured_against_its_like() -> None:
    arm = make_arm("a", {f"t{n}": [float(n % 2), float(n % 3 == 0)] for n in range(20)})
    (pilot,) = estimate_pilots([arm])
    assert (pilot.other, pilot.correlation) == (None, 0.8)
    assert estimate_pilots([make_arm("a", {"t0": [1.0], "t1": [0.0]})]) == ()


def reached(
    pilot_rates: float, tasks: int, replications: int, difference: float, *, groups: int = 0
) -> float:
    """How often a difference is shown, in simulated runs: all tasks have the same rates."""
    chance = np.random.default_rng(tasks)
    shown, runs = 0, 400
    for _ in range(runs):
        arms = [
            make_arm(
                name,
                {
                    f"t{n}": chance.binomial(1, rate, size=replications).astype(float).tolist()
                    for n in range(tasks)
                },
                groups={f"t{n}": f"g{n % groups}" for n in range(tasks)} if groups else None,
            )
            for name, rate in (("a", pilot_rates), ("b", pilot_rates + difference))
        ]
        shown += compare_all([(arms[0], arms[1])])[0].conclusion == "better"
    return shown / runs


@pytest.mark.parametrize(("tasks", "replications", "groups"), [(8, 3, 0), (10, 5, 0), (20, 3, 0), (40, 1, 8)])
def test_a_power_that_is_promised_is_reached(tasks: int, replications: int, groups: int) -> None:
    rate = 0.35
    pilot = Pilot(
        baseline="a",
        other="b",
        measure="pass",
        tasks=1_000,
        units=1_000,
        within=2 * 0.24,  # near the middle of the two rates
        between=0.0,
        between_groups=0.0,
        correlation=None,
        is_rate=True,
        reach=1.0,
    )
    layout = layout_of([f"g{n % groups}" for n in range(tasks)]) if groups else alone(tasks)
    promised = pilot.detectable(layout, tasks, replications)
    assert promised is not None
    assert promised < 0.65
    assert reached(rate, tasks, replications, promised, groups=groups) == pytest.approx(0.8, abs=0.07)


def test_several_comparisons_of_rates_need_more_tasks_than_a_sweep_of_which_is_likely() -> None:
    alone_asked, three = replace(U_SHAPED, reach=None), replace(U_SHAPED, family=3, reach=None)
    assert alone_asked.detectable(alone(6), 6, 5) is not None
    assert three.detectable(alone(6), 6, 5) is None
    assert three.detectable(alone(7), 7, 5) is not None
    # Measured scores have no such floor.
    assert replace(three, is_rate=False).detectable(alone(6), 6, 5) is not None
    assert replace(three, family=4).needed(alone(10), 5, 0.9) == 8


def test_a_pilot_of_rates_that_saw_no_spread_is_called_the_best_case() -> None:
    still = replace(U_SHAPED, within=0.0, between=0.0)
    (told, usual) = (
        to_text(show_power([make_grid(each, alone(12), replications=3)])) for each in (still, U_SHAPED)
    )
    assert BEST_CASE in " ".join(told.split())
    assert BEST_CASE not in " ".join(usual.split())
    few = make_grid(replace(still, family=2), alone(6), replications=3)
    assert "so few show nothing where 2 comparisons share the 5%" in " ".join(
        to_text(show_power([few])).split()
    )
