import random

import numpy as np
import pytest
from statsmodels.stats.contingency_tables import StratifiedTable  # type: ignore[import-untyped] # no types

from labrunner.analysis.inference.association import Table, cochran_mantel_haenszel


def table(both: int, first: int, second: int, neither: int) -> Table:
    return Table(both=both, first=first, second=second, neither=neither)


# Admissions to graduate school at Berkeley in 1973 by department: men and women, admitted and rejected.
BERKELEY = [
    table(512, 313, 89, 19),
    table(353, 207, 17, 8),
    table(120, 205, 202, 391),
    table(138, 279, 131, 244),
    table(53, 138, 94, 299),
    table(22, 351, 24, 317),
]


def test_the_berkeley_admissions_give_the_published_figures() -> None:
    found = cochran_mantel_haenszel(BERKELEY)
    assert found.statistic == pytest.approx(1.4269, abs=5e-5)
    assert found.p_value == pytest.approx(0.2323, abs=5e-5)
    assert found.odds_ratio.value == pytest.approx(0.9046968, abs=5e-8)
    assert found.odds_ratio.low == pytest.approx(0.7719074, abs=5e-6)
    assert found.odds_ratio.high == pytest.approx(1.0603298, abs=5e-6)
    assert found.strata == 6


def test_small_strata_agree_with_statsmodels() -> None:
    chance = random.Random(9)
    tables = [table(*(chance.randint(0, 4) for _ in range(4))) for _ in range(30)]
    found = cochran_mantel_haenszel(tables)
    arrays = [
        np.array([[each.both, each.first], [each.second, each.neither]], dtype=float)
        for each in tables
        if (each.both + each.first) * (each.second + each.neither)
        and (each.both + each.second) * (each.first + each.neither)
    ]
    independent = StratifiedTable(arrays)
    expected = independent.test_null_odds(correction=True)
    assert (found.statistic, found.p_value) == pytest.approx((expected.statistic, expected.pvalue))
    assert found.odds_ratio.value == pytest.approx(independent.oddsratio_pooled)
    low, high = independent.oddsratio_pooled_confint()
    assert (found.odds_ratio.low, found.odds_ratio.high) == pytest.approx((low, high), rel=1e-6)


def test_strata_in_which_nothing_varies_say_nothing() -> None:
    found = cochran_mantel_haenszel([table(0, 0, 3, 2), table(2, 0, 3, 0), table(0, 0, 0, 0)])
    assert (found.strata, found.p_value, found.odds_ratio.value) == (0, None, None)
