"""Results as tables, for notebooks: the same as `lab query` gives, for pandas or Arrow.

    from labrunner.analysis.tables import pandas_table
    pandas_table("select variant_id, avg(value) from trials group by 1", "last")

The tables are those of `lab query`: trials, attempts, scores, predictions, metrics, timings, events. A run is
a path, an id, a unique part of an id, or `last`. pandas and pyarrow come with the extra `labrunner[tables]`.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import pandas
    import pyarrow  # type: ignore[import-untyped] # it has no types

RUNS: Final = Path(".lab/runs")


def arrow_table(sql: str, *runs: str | Path, log_dir: Path = RUNS) -> "pyarrow.Table":
    """Carry out SQL over runs; the answer as an Arrow table."""
    # This door stands where people look for it; what is behind it needs the store, a later room.
    from labrunner.query.tables import query_arrow

    return query_arrow(runs, sql, log_dir=log_dir)


def pandas_table(sql: str, *runs: str | Path, log_dir: Path = RUNS) -> "pandas.DataFrame":
    """Carry out SQL over runs; the answer as a pandas data frame."""
    from labrunner.query.tables import query_pandas

    return query_pandas(runs, sql, log_dir=log_dir)
