"""Answers as tables of other libraries, each of which is optional."""

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Final

from labrunner.errors import InputError
from labrunner.query.database import ask
from labrunner.store.reading.listing import find_run

if TYPE_CHECKING:
    import pandas
    import pyarrow  # type: ignore[import-untyped] # it has no types

EXTRA: Final = "labrunner[tables]"
RUNS: Final = Path(".lab/runs")


def arrow_table(sql: str, *runs: str | Path, log_dir: Path = RUNS) -> "pyarrow.Table":
    """Carry out SQL over runs; the answer as an Arrow table."""
    _require("pyarrow")
    with ask([find_run(log_dir, str(run)) for run in runs], sql) as answer:
        return answer.relation.to_arrow_table()


def pandas_table(sql: str, *runs: str | Path, log_dir: Path = RUNS) -> "pandas.DataFrame":
    """Carry out SQL over runs; the answer as a pandas data frame."""
    _require("pandas")
    with ask([find_run(log_dir, str(run)) for run in runs], sql) as answer:
        table: pandas.DataFrame = answer.relation.df()
        return table


def _require(library: str) -> None:
    try:
        import_module(library)
    except ImportError as error:
        raise InputError(library, f"is not installed; install {EXTRA}") from error
