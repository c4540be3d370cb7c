from pathlib import Path

import pytest

from labrunner.interop.exporters.flat import SQL, TABLES
from labrunner.query.slices import ask_in_slices
from tests.kit.made_runs import make_grid, write_run
from tests.kit.query.told import script


@pytest.mark.parametrize("slots", [1, 2, 5])
def test_rows_of_a_run_are_the_same_however_they_are_sliced(tmp_path: Path, slots: int) -> None:
    import duckdb

    paths = write_run(tmp_path, make_grid(tasks=3, replications=2), script)
    with ask_in_slices(paths, SQL, TABLES) as whole:
        columns, rows = whole.columns, list(whole.rows())
    assert len(rows) > slots
    with ask_in_slices(paths, SQL, TABLES, slots) as sliced:
        assert (sliced.columns, list(sliced.rows())) == (columns, rows)
    with ask_in_slices(paths, SQL, TABLES, slots) as sliced:
        sliced.write_parquet(tmp_path / "rows.parquet")
    found = duckdb.execute(f"select trial_id from read_parquet('{tmp_path / 'rows.parquet'}')").fetchall()
    assert [name for (name,) in found] == [row[columns.index("trial_id")] for row in rows]
