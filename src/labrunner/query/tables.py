"""Answers as tables of other libraries, each of which is optional."""

from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from labrunner.errors import InputError
from labrunner.query.database import ask
from labrunner.store.reading.listing import find_run

if TYPE_CHECKING:
    import pandas
    import pyarrow  # type: ignore[import-untyped] # it has no types

EXTRA = "labrunner[tables]"


def query_arrow(runs: Sequence[str | Path], sql: str, *, log_dir: Path) -> "pyarrow.Table":
    """Carry out SQL over runs; the answer as an Arrow table."""
    _require("pyarrow")
    with ask([find_run(log_dir, str(run)) for run in runs], sql) as answer:
        return answer.relation.to_arrow_table()


def query_pandas(runs: Sequence[str | Path], sql: str, *, log_dir: Path) -> "pandas.DataFrame":
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
