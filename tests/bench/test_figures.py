import pytest

from bench import figures
from bench.figures import Bar, Figure


@pytest.mark.parametrize(
    ("figure", "shown"),
    [
        (Figure(name="ratio", value=2.0, unit="x", bar=Bar("at_most", 2)), "2x (<= 2x: met)"),
        (Figure(name="ratio", value=2.01, unit="x", bar=Bar("at_most", 2)), "2.01x (<= 2x: MISSED)"),
        (
            Figure(name="rate", value=1499, unit="trials/s", bar=Bar("at_least", 1500)),
            "1,499 trials/s (>= 1,500 trials/s: MISSED)",
        ),
        (Figure(name="bare", value=8.126, unit="ms"), "8.13 ms"),
    ],
)
def test_a_figure_is_shown_with_its_bar(figure: Figure, shown: str) -> None:
    assert figures.show(figure) == shown
