"""Results as tables, for notebooks: the same as `lab query` gives, for pandas or Arrow.

    from labrunner.tables import pandas_table
    pandas_table("select variant_id, avg(value) from trials group by 1", "last")

The tables are those of `lab query`: trials, attempts, scores, predictions, metrics, timings, events. A run is
a path, an id, a unique part of an id, or `last`. pandas and pyarrow come with the extra `labrunner[tables]`.
"""

from labrunner.query.tables import arrow_table, pandas_table

__all__ = ["arrow_table", "pandas_table"]
