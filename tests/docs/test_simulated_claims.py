"""What pages say of the simulated tables is what stands in them."""

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
PAGES = "\n".join((DOCS / name).read_text() for name in ("statistics.md", "design/inference.md"))
RATES = tuple(f"p = {rate}" for rate in ("0.01", "0.02", "0.1", "0.5", "0.9", "0.95", "0.98", "0.99"))
LOWEST = 93.0


def read_columns(table: str, *columns: str) -> list[float]:
    """Every percentage in these columns of the table below a title in bold."""
    _, block, *_ = PAGES.split(f"**{table}**", 1)[1].split("\n\n")
    head, _, *rows = ([cell.strip() for cell in line.strip("|").split("|")] for line in block.splitlines())
    cells = [row[head.index(column)] for row in rows for column in columns]
    return [float(found) for cell in cells for found in re.findall(r"([\d.]+)%", cell)]


@pytest.mark.parametrize(
    ("table", "columns", "claim"),
    [
        (
            "Interval of a mean rate",
            RATES,
            "held less than {}% of the time (0.1, with 100 tasks of one trial)",
        ),
        ("pass@k and pass^k", ("pass@k",), "pass@k no less than {}% (100 tasks, k = 5)"),
        ("These tasks run again", ("rates",), "one is held {}% of the time (ten tasks of ten trials)"),
        ("These tasks run again", ("rates",), "run again ({}% at the worst rate, 2,000 runs)"),
        ("Families", ("all intervals hold",), "({}% for both intervals together, 5,000 runs)"),
    ],
)
def test_the_least_coverage_that_is_claimed_is_the_tables(
    table: str, columns: tuple[str, ...], claim: str
) -> None:
    assert claim.format(min(read_columns(table, *columns))) in PAGES


@pytest.mark.parametrize(
    ("table", "column", "claim"),
    [
        ("Six to eight tasks", "type I", "at most {}% where every outcome is counted"),
        ("Six to eight tasks", "type I of plain t", "the plain t test has up to {}% of false alarms"),
        ("Paired differences", "type I", "the most that is drawn is {}% (fifty tasks of three trials"),
        ("Paired differences", "on these tasks, alone", "alone they are up to {}%, with fifty tasks of one"),
        ("Both answers together", "on these tasks", "at most {}% (eight tasks of two trials, 6,000 runs;"),
    ],
)
def test_the_most_false_alarms_that_are_claimed_are_the_tables(table: str, column: str, claim: str) -> None:
    assert claim.format(max(read_columns(table, column))) in PAGES


def test_no_more_settings_than_those_named_are_under_93_percent() -> None:
    found = [
        *read_columns("Interval of a mean rate", *RATES),
        *read_columns("pass@k and pass^k", "pass@k", "pass^k"),
        *read_columns("Paired differences", "coverage"),
        *read_columns("Groups", "mean", "difference, none", "some", "most"),
        *read_columns("These tasks run again", "rates", "other scores"),
        *read_columns("Families", "all intervals hold"),
        *read_columns("Measured scores on these tasks", "normal", "some noisy", "skewed", "thirds"),
    ]
    assert sum(share < LOWEST for share in found) == 2
    assert "Of the settings that we simulate two are under 93%" in PAGES
