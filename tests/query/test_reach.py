from pathlib import Path
from typing import Any

import duckdb
import pytest

from labrunner.query import database
from labrunner.query.reach import find_columns
from tests.kit.made_runs import make_grid, write_run
from tests.kit.query.told import script


def reach(sql: str) -> frozenset[str] | None:
    found = duckdb.connect().execute("select json_serialize_sql(?)", [sql]).fetchone()
    assert found is not None
    return find_columns(found[0])


@pytest.mark.parametrize(
    ("sql", "columns"),
    [
        ("select variant_id, count(*), avg(value) from trials group by 1", {"variant_id", "value"}),
        ('select T."Value" from Trials t', {"t", "value"}),
        ("select count(*) from trials", set()),
        ("select 1", set()),
        ("select s.value from trials join scores s using (trial_id)", {"s", "value", "trial_id"}),
        ("with a as (select value v from trials) select v from a where v > 1", {"value", "v"}),
        (
            "select value from trials where exists (select 1 from scores where attempt = 2)",
            {"value", "attempt"},
        ),
        ("select value from trials union all select number from metrics order by 1", {"value", "number"}),
        ("select row_number() over (partition by task_id order by value) from trials", {"task_id", "value"}),
        ("select attempts from trials", {"attempts"}),
    ],
)
def test_a_query_that_names_its_columns_reaches_no_others(sql: str, columns: set[str]) -> None:
    assert reach(sql) == frozenset(columns)


@pytest.mark.parametrize(
    "sql",
    [
        "select * from trials",
        "from trials",
        "select t.* from trials t",
        "select columns('v.*') from trials",
        "select count(columns(*)) from trials",
        "select trials from trials",
        "select to_json(T) from trials t",
        "select (t).value from trials t",
        "select main.trials from main.trials",
        "select #1 from trials",
        "select a from trials t(a)",
        "select value from trials natural join scores",
        "select value from query_table('trials')",
        "select a from query('select va' || 'lue as a from trials')",
        "select column_name from information_schema.columns",
        "select column_name from duckdb_columns()",
        "describe trials",
        "summarize trials",
        "table trials",
        "unpivot trials on value",
        "pivot trials on verdict using count(*)",
        "with recursive r as (select 1 as n union all select n + 1 from r where n < 3) select n from r",
        "select list_transform(flags, lambda x: x || value) from trials",
        "select value + ? from trials",
    ],
)
def test_columns_that_are_meant_without_their_names_are_all_reached(sql: str) -> None:
    assert reach(sql) is None


QUERIES = (
    "select variant_id, count(*), avg(value) from trials group by 1 order by 1",
    "select count(*) from trials",
    "select count(*) from events",
    "select task_group, invalidated, invalidated_because from trials order by schedule_idx",
    "select VALUE as verdict, verdict as v from trials order by schedule_idx",
    "select 1 as value, value + 1 from trials",
    "select t.attempts, a.cause from trials t join attempts a using (trial_id) order by all",
    "select name, (select max(value) from trials t where t.task_id = m.task_id) from metrics m order by 1, 2",
    "select trials from trials order by schedule_idx",
    "select count(*) from trials natural join scores",
    "select #3 from trials order by 1",
    "select rowid, committed from trials order by 1",
    "select usage['tokens'] as u, time_s from timings order by all",
    "select cause, count(*) from attempts group by all having count(*) > 1 order by 2 desc, 1 limit 3",
    "select kind from predictions union select evaluator from scores order by 1",
    "describe trials",
    "from trials order by schedule_idx",
)


@pytest.mark.parametrize("sql", QUERIES)
def test_answers_are_those_that_all_columns_would_give(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sql: str
) -> None:
    paths = write_run(tmp_path, make_grid(tasks=3, replications=2), script)

    def told() -> list[Any]:
        with database.ask([paths], sql) as answer:
            return [answer.columns, answer.types, *answer.rows()]

    found = told()
    # What is read without it is what it is compared with.
    monkeypatch.setattr(database, "find_columns", lambda tree: None)
    assert found == told()


def test_a_tree_of_any_depth_is_gone_through() -> None:
    assert reach(f"select {' + '.join(['value'] * 500)} from trials") in (frozenset({"value"}), None)
