"""Every figure that is printed is explained on the page that says how figures are computed."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, get_args

import pytest

from labrunner.analysis.comparing.comparison import Conclusion
from labrunner.analysis.inference.interval import Method
from labrunner.display.results import breakdown, report, show
from labrunner.display.text.columns import Column
from labrunner.interop.registry import EXPORTERS
from labrunner.query.views import VIEWS

DOCS = Path(__file__).parents[2] / "docs"


def names(columns: Sequence[Column[Any]]) -> list[str]:
    return [column.name for column in columns]


COLUMNS = {
    *names(show.COLUMNS),
    *names(report.BOUNDS),
    *report._REPEATED,
    *names(report.SPENT),
    *names(report.SHIFT),
    *report._ODDS,
    *report._CHANGES,
    *report._EXPENSES.values(),
    *names(breakdown.PRICES),
    *names(breakdown.FLAKY),
    *breakdown.DIVIDED,
    *breakdown.TAGS,
}
ELSEWHERE = {
    "variant", "a trial", "trials", "k", "95% interval ", "attempts", "rate", "as 0", "as 1", "agent's time",
    "most", "tested", "p",
    "cost (USD)", "time", "95% interval",
}  # fmt: skip
"""Names of rows, and columns that a sentence of the page explains in other words."""


@pytest.mark.parametrize("name", sorted(COLUMNS - ELSEWHERE))
def test_every_column_is_explained(name: str) -> None:
    page = (DOCS / "statistics.md").read_text().lower()
    reading = (DOCS / "reading-a-run.md").read_text().lower()
    assert name.lower().strip() in page + reading


@pytest.mark.parametrize("name", [*get_args(Method), *get_args(Conclusion)])
def test_every_method_and_conclusion_is_explained(name: str) -> None:
    page = (DOCS / "statistics.md").read_text()
    assert name in page


@pytest.mark.parametrize("name", [*EXPORTERS.built_in, *VIEWS])
def test_every_format_and_table_is_on_the_page_about_reading(name: str) -> None:
    assert f"`{name}`" in (DOCS / "reading-a-run.md").read_text()
