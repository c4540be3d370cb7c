import random

import numpy as np
import pytest
from scipy import stats  # type: ignore[import-untyped] # scipy has no types

from labrunner.analysis.describing.variance import detectable, split_variance
from labrunner.analysis.sums.measure import Measure, choose_measure
from labrunner.analysis.sums.tally import Cell, VariantTally
from tests.kit.analysis.trial_rows import graded

SCORE = Measure(name="score", is_rate=False)


def cells_of(values: dict[str, list[float]]) -> list[Cell]:
    tally = VariantTally()
    for task_id, scores in values.items():
        for repl_idx, value in enumerate(scores):
            tally.add(graded("a", task_id, repl_idx, value=value, metric="score"))
    return list(tally.cells.values())


def test_the_split_agrees_with_one_way_analysis_of_variance() -> None:
    chance = random.Random(3)
    values = {f"t{n}": [chance.gauss(n % 5, 1.0) for _ in range(6)] for n in range(12)}
    found = split_variance(cells_of(values), SCORE)
    assert found is not None
    table = np.array(list(values.values()))
    within = table.var(axis=1, ddof=1).mean()
    between = table.mean(axis=1).var(ddof=1) - within / 6
    assert (found.within, found.between) == pytest.approx((within, between), rel=1e-12)
    assert found.icc == pytest.approx(between / (between + within))


def test_large_values_do_not_drown_their_spread() -> None:
    cells = cells_of({"t0": [1.7e9, 1.7e9 + 1, 1.7e9 + 2], "t1": [1.7e9 + 1, 1.7e9 + 2, 1.7e9 + 3]})
    found = split_variance(cells, SCORE)
    assert found is not None
    assert found.within == pytest.approx(1.0, rel=1e-6)


def test_the_variance_of_a_rate_within_a_task_is_the_binomials() -> None:
    tally = VariantTally()
    for task_id, passes in (("t0", 3), ("t1", 1)):
        for repl_idx in range(4):
            tally.add(graded("a", task_id, repl_idx, value=float(repl_idx < passes), metric="pass"))
    found = split_variance(list(tally.cells.values()), choose_measure(tally))
    assert found is not None
    assert found.within == pytest.approx(4 / 3 * 3 / 16)


def test_without_repeats_or_a_second_task_there_is_no_split() -> None:
    assert split_variance(cells_of({"t0": [1.0], "t1": [0.0]}), SCORE) is None
    assert split_variance(cells_of({"t0": [1.0, 0.0]}), SCORE) is None


def test_ragged_replications_take_the_mean_of_one_over_k() -> None:
    found = split_variance(cells_of({"t0": [0.0, 1.0], "t1": [1.0], "t2": [0.0, 0.0, 1.0, 1.0]}), SCORE)
    assert found is not None
    assert found.mean_inverse_graded == pytest.approx((1 / 2 + 1 + 1 / 4) / 3)
    assert (found.tasks, found.repeated) == (3, 2)
    assert found.within == pytest.approx((0.5 + 1 / 3) / 2)


@pytest.mark.parametrize("freedom", [5, 9, 19, 99.5])
def test_the_detectable_difference_is_where_the_noncentral_t_has_80_percent(freedom: float) -> None:
    found = detectable(0.1, freedom) / 0.1
    limit = stats.t.ppf(0.975, freedom)
    assert stats.nct.sf(limit, freedom, found) == pytest.approx(0.8, abs=1e-6)
    assert found > 2.8015852
