import csv
import fcntl
import io
import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from labrunner.errors import DamagedRun, InputError
from labrunner.experiment.schedule import Slot
from labrunner.interop.registry import export_run
from labrunner.query import database
from labrunner.query.database import ask
from labrunner.query.formats import write_csv, write_json
from labrunner.query.snapshot import take_snapshot
from labrunner.query.views import VIEWS
from labrunner.records.cause import Cause
from labrunner.records.facts.outage_note import OutageNote
from labrunner.store.layout import RunPaths
from labrunner.store.reading.run_state import iter_finished
from labrunner.store.rows.outages import put_outage
from labrunner.tables import arrow_table, pandas_table
from tests.kit.builders import make_task
from tests.kit.made_runs import Told, make_grid, mark, write_run
from tests.kit.query.told import script


def made(tmp_path: Path, name: str = "made") -> RunPaths:
    return write_run(tmp_path, make_grid(tasks=3, replications=2), script, run_id=name)


def rows_of(paths: RunPaths | Sequence[RunPaths], sql: str) -> list[tuple[Any, ...]]:
    runs = [paths] if isinstance(paths, RunPaths) else paths
    with ask(runs, sql) as answer:
        return list(answer.rows())


@contextmanager
def owned(paths: RunPaths) -> Iterator[None]:
    with paths.lock.open("r+b") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def test_which_node_carried_an_attempt_out_is_a_column(tmp_path: Path) -> None:
    def on_nodes(slot: Slot) -> Told:
        return Told(node=f"gpu-{slot.schedule_idx}/4f1c09ab" if slot.schedule_idx < 2 else None)

    paths = write_run(tmp_path, make_grid(tasks=2), on_nodes)
    found = rows_of(paths, "select node, host from timings order by schedule_idx")
    assert found == [("gpu-0/4f1c09ab", "here"), ("gpu-1/4f1c09ab", "here"), (None, "here"), (None, "here")]


def test_trials_are_those_that_readers_see_buffered_ones_included(tmp_path: Path) -> None:
    paths = made(tmp_path)
    found = rows_of(
        paths, "select schedule_idx, trial_id, verdict, value, attempts, retried, committed from trials"
    )
    expected = [
        (
            rows.schedule_idx,
            rows.trial_id,
            rows.trial.verdict,
            rows.trial.primary_metric_value,
            len(rows.trial.attempts),
            len(rows.trial.attempts) > 1,
            rows.schedule_idx < 9,
        )
        for rows in iter_finished(paths)
    ]
    assert found == expected
    assert len(found) == 11


def test_attempts_have_a_row_each_with_their_causes(tmp_path: Path) -> None:
    found = rows_of(
        made(tmp_path),
        "select schedule_idx, attempt, is_last, outcome, cause, agent_exit, grader_exit from attempts "
        "where schedule_idx in (4, 6) order by all",
    )
    assert found == [
        (4, 1, False, "failed", "sandbox", 0, None),
        (4, 2, True, "failed", "provider", 0, None),
        (6, 1, False, "failed", "provider", 0, None),
        (6, 2, True, "graded", None, 0, 0),
    ]


def test_scores_predictions_and_metrics_are_flat(tmp_path: Path) -> None:
    paths = made(tmp_path)
    assert rows_of(paths, "select count(*), min(metric), sum(value) from scores") == [(10, "solved", 5.0)]
    assert rows_of(paths, "select kind, text from predictions where schedule_idx = 7") == [
        ("text", "answer 7")
    ]
    metrics = rows_of(
        paths, "select name, number, text, is_primary from metrics where schedule_idx = 7 order by name"
    )
    assert metrics == [
        ("fast", 1.0, None, False),
        ("gone", None, None, False),
        ("solved", 1.0, None, True),
        ("steps", 7.0, None, False),
        ("why", None, "it's", False),
    ]


def test_timings_have_a_row_an_attempt_with_phases_and_use(tmp_path: Path) -> None:
    found = rows_of(
        made(tmp_path),
        "select attempt, agent_s, time_s, tokens, cost_usd, setup_s, message, epoch(ended_at - started_at) "
        "from timings where schedule_idx = 6 order by attempt",
    )
    assert found == [
        (1, 2.0, 2.25, 100.0, 0.5, None, "attempt 1 went wrong", 2.25),
        (2, 2.0, 2.25, 100.0, 0.5, None, None, 2.25),
    ]


def test_events_come_from_the_attempts_folders(tmp_path: Path) -> None:
    paths = made(tmp_path)
    trial = rows_of(paths, "select trial_id from trials where schedule_idx = 0")[0][0]
    state = paths.attempt(trial, 1) / "state"
    state.mkdir(parents=True)
    (state / "events.jsonl").write_text('{"type": "step", "n": 1}\nplain\n')
    found = rows_of(paths, "select trial_id, attempt, seq, type, event ->> '$.n' from events order by seq")
    assert found == [(trial, 1, 0, "step", "1"), (trial, 1, 1, None, None)]


def test_several_runs_are_asked_at_once(tmp_path: Path) -> None:
    runs = [made(tmp_path, "one"), made(tmp_path, "two")]
    found = rows_of(runs, "select run_id, count(*), sum(committed::int) from trials group by 1 order by 1")
    assert found == [("one", 11, 9), ("two", 11, 9)]


@pytest.mark.parametrize("columns", ["*", "run_id, schedule_idx", "run_id, schedule_idx, task_group"])
def test_rows_come_in_the_order_of_runs_and_slots_where_none_is_asked_for(
    tmp_path: Path, columns: str
) -> None:
    experiment = make_grid(tasks=1_200, replications=2)
    names = ("second", "first")
    runs = [
        write_run(tmp_path, experiment, lambda slot: Told() if slot.schedule_idx != 9 else None, run_id=name)
        for name in names
    ]
    found = [row[:2] for row in rows_of(runs, f"select {columns} from trials")]
    assert found == [(name, slot) for name in names for slot in range(4_800) if slot != 9]


def test_groups_and_invalidations_stand_beside_the_trials(tmp_path: Path) -> None:
    experiment = make_grid(tasks=2, variants=("a",))
    tasks = tuple(make_task(task.id, group=f"g{task.id}") for task in experiment.tasks)
    paths = write_run(tmp_path, replace(experiment, tasks=tasks), lambda slot: Told())
    trial = rows_of(paths, "select trial_id from trials where task_id = 't1'")[0][0]
    mark(paths, trial, 1, "it's wrong")
    found = rows_of(
        paths, "select task_id, task_group, invalidated, invalidated_because from trials order by 1"
    )
    assert found == [("t0", "gt0", False, None), ("t1", "gt1", True, "it's wrong")]


def test_an_empty_run_has_every_table_and_no_rows(tmp_path: Path) -> None:
    paths = write_run(tmp_path, make_grid(), lambda slot: None)
    for name in VIEWS.keys() - {"tasks", "runs"}:
        assert rows_of(paths, f"select * from {name}") == []


def test_tags_groups_and_metadata_of_tasks_and_runs_can_be_asked_for(tmp_path: Path) -> None:
    tasks = tuple(
        make_task(f"t{n}", tags=("hard", f"x{n}"), group="g", metadata={"level": n, "why": "it's"})
        for n in range(2)
    )
    experiment = replace(make_grid(tasks=2), tasks=tasks, tags=("nightly",), metadata={"of": "all"})
    paths = write_run(tmp_path, experiment, lambda slot: Told(value=1.0), run_id="tagged")
    found = rows_of(paths, "select run_id, task_id, tags, (metadata ->> 'level')::int, task_group from tasks")
    assert found == [("tagged", "t0", ["hard", "x0"], 0, "g"), ("tagged", "t1", ["hard", "x1"], 1, "g")]
    joined = rows_of(
        paths,
        "select count(*) from trials join tasks using (run_id, task_id) where list_contains(tags, 'x1')",
    )
    assert joined == [(2,)]
    assert rows_of(paths, "select run_id, name, tags, planned, metadata ->> 'of' from runs") == [
        ("tagged", "grid", ["nightly"], 4, "all")
    ]


@pytest.mark.parametrize(
    "sql",
    [
        "pivot trials on variant_id using count(*) group by task_id",
        "from (pivot trials on variant_id using count(*) group by task_id)",
        "with p as (pivot trials on variant_id using count(*) group by task_id) select * from p",
        "pivot trials on variant_id in ('a', 'b') using count(*) group by task_id",
    ],
)
def test_a_pivot_is_a_question_too(tmp_path: Path, sql: str) -> None:
    with ask([made(tmp_path)], f"{sql} order by task_id") as answer:
        assert answer.columns == ["task_id", "a", "b"]
        assert [row[0] for row in answer.rows()] == ["t0", "t1", "t2"]


@pytest.mark.parametrize(
    "sql",
    [
        "create table mine as pivot trials on variant_id using count(*)",
        "copy (pivot trials on variant_id using count(*)) to '/dev/null'",
        "with p as (pivot trials on variant_id using count(*)) insert into trials select * from p",
        "pivot trials on variant_id using count(*); drop table trials",
    ],
)
def test_a_pivot_carries_nothing_else_in(tmp_path: Path, sql: str) -> None:
    with pytest.raises(InputError, match="SQL"):
        rows_of(made(tmp_path), sql)


@pytest.mark.parametrize("is_live", [True, False])
def test_a_run_is_read_up_to_its_journal_whatever_lies_beyond(tmp_path: Path, is_live: bool) -> None:
    paths = made(tmp_path)
    for name in ("trials", "scores", "predictions", "timings", "commits"):
        path: Path = getattr(paths, name)
        whole = path.read_bytes().splitlines(keepends=True)[-1]
        with path.open("ab") as file:
            file.write((b"" if name == "commits" else whole) + whole[:40])
    with owned(paths) if is_live else nullcontext():
        for name, count in (("trials", 11), ("scores", 10), ("predictions", 10), ("timings", 13)):
            assert rows_of(paths, f"select count(*) from {name}") == [(count,)], name


def test_the_files_of_a_live_run_are_never_handed_to_sql(tmp_path: Path) -> None:
    paths, folder = made(tmp_path / "runs"), tmp_path / "copies"
    folder.mkdir()
    with owned(paths):
        sources = take_snapshot([paths], ["trials", "timings"], folder, copy=False)
    for name in ("trials", "timings"):
        assert all(source.path.is_relative_to(folder) for source in sources.files[name])


def test_sql_does_not_see_this_programs_variables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import pandas

    # A variable of the very module that SQL is carried out in.
    monkeypatch.setattr(database, "stolen", pandas.DataFrame({"secret": [1]}), raising=False)
    with pytest.raises(InputError, match="stolen"):
        rows_of(made(tmp_path), "select * from stolen")


def test_a_run_that_begins_to_grow_while_it_is_read_in_place_is_read_again_from_a_copy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = made(tmp_path)
    load = database.load_view
    grown: list[Path] = []

    def grow(connection: Any, name: str, sources: Any, reached: Any) -> None:
        if not grown:
            grown.append(sources.files["trials"][0].path)
            with paths.trials.open("ab") as file:
                file.write(b'{"torn": tr')
        load(connection, name, sources, reached)

    # The run grows in the one moment between the look at its files and the reading of them.
    monkeypatch.setattr(database, "load_view", grow)
    assert rows_of(paths, "select count(*) from trials") == [(11,)]
    assert grown == [paths.trials]


def test_a_path_that_looks_like_a_pattern_is_only_a_path(tmp_path: Path) -> None:
    paths = made(tmp_path / "odd [1] *? 'quoted'")
    assert rows_of(paths, "select count(*) from trials") == [(11,)]


def test_rows_that_are_no_rows_are_damage_not_bad_sql(tmp_path: Path) -> None:
    paths = made(tmp_path)
    data = paths.scores.read_bytes()
    paths.scores.write_bytes(b"x" * 20 + data[20:])
    with pytest.raises(DamagedRun, match="try: lab verify"):
        rows_of(paths, "select * from scores")
    with pytest.raises(DamagedRun, match="not those that were committed"):
        export_run(paths, "csv", tmp_path / "rows.csv")
    assert not (tmp_path / "rows.csv").exists()


@pytest.mark.parametrize(
    "sql",
    [
        "copy trials to '{folder}/stolen.csv'",
        "create table x as select 1",
        "insert into trials select * from trials",
        "drop table trials",
        "attach '{folder}/other.db'",
        "install httpfs",
        "load httpfs",
        "set enable_external_access = true",
        "pragma enable_profiling",
        "export database '{folder}/all'",
        "select 1; select 2",
        "explain analyze copy trials to '{folder}/stolen.csv'",
        "call duckdb_settings()",
        "prepare p as select 1",
        "",
        "   -- nothing",
    ],
)
def test_only_one_select_is_carried_out(tmp_path: Path, sql: str) -> None:
    paths = made(tmp_path / "runs")
    with pytest.raises(InputError, match="SQL"):
        rows_of(paths, sql.format(folder=tmp_path))
    assert sorted(os.listdir(tmp_path)) == ["runs"]


@pytest.mark.parametrize(
    "source",
    [
        "read_csv('{file}')",
        "read_json('{file}')",
        "read_parquet('{file}')",
        "read_text('{file}')",
        "read_blob('/proc/self/environ')",
        "'{file}'",
        "glob('{folder}/*')",
        "sniff_csv('{file}')",
        "parquet_metadata('{file}')",
        "read_csv('https://127.0.0.1:9/x')",
        "sqlite_scan('{folder}/buffer.sqlite', 'events')",
        "paths",
        "sources",
    ],
)
def test_nothing_but_the_tables_can_be_reached(tmp_path: Path, source: str) -> None:
    paths = made(tmp_path / "runs")
    file = tmp_path / "secret.csv"
    file.write_text("secret\n1\n")
    with pytest.raises(InputError, match="SQL"):
        rows_of(paths, f"select * from {source.format(file=file, folder=paths.root)}, trials")


def test_what_was_closed_can_not_be_opened_by_a_function(tmp_path: Path) -> None:
    paths = made(tmp_path)
    assert rows_of(paths, "select current_setting('enable_external_access')") == [(False,)]
    assert rows_of(paths, "select current_setting('lock_configuration')") == [(True,)]
    allowed = rows_of(paths, "select current_setting('allowed_directories')")[0][0]
    assert all("lab-query-" in folder for folder in allowed)


def test_wrong_sql_is_told_as_such(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="speed"):
        rows_of(made(tmp_path), "select speed from trials")


def test_an_unknown_column_is_told_with_those_that_may_have_been_meant(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r'Candidate bindings: .*"verdict"'):
        rows_of(made(tmp_path), "select verdikt from trials")


def test_only_the_columns_that_are_reached_are_read(tmp_path: Path) -> None:
    paths = made(tmp_path)
    data = paths.trials.read_bytes()
    paths.trials.write_bytes(data.replace(b'"primary_metric_value":0.0', b'"primary_metric_value":"?"'))
    assert rows_of(paths, "select count(verdict) from trials") == [(10,)]
    with pytest.raises(DamagedRun, match="try: lab verify"):
        rows_of(paths, "select value from trials")


def test_only_the_tables_that_are_named_are_loaded(tmp_path: Path) -> None:
    paths = made(tmp_path)
    paths.timings.write_bytes(b"")
    assert rows_of(paths, "select count(*) from trials") == [(11,)]
    with pytest.raises(DamagedRun, match="timings"):
        rows_of(paths, "select count(*) from timings")


def test_nothing_is_left_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = tmp_path / "tmp"
    place.mkdir()
    # Where nothing else is made, everything that is left is ours.
    monkeypatch.setattr("tempfile.tempdir", str(place))
    paths = made(tmp_path / "runs")
    with owned(paths):
        rows_of(paths, "select count(*) from trials")
    with pytest.raises(InputError, match="SQL"):
        rows_of(paths, "select nonsense from trials")
    assert os.listdir(place) == []


def test_csv_and_json_give_what_was_found(tmp_path: Path) -> None:
    paths = made(tmp_path)
    odd = "'a,\"b\"' as odd, 1.50::decimal(4, 2) as d"
    sql = f"select schedule_idx, value, passed, flags, {odd} from trials limit 1"
    with ask([paths], sql) as answer:
        text = io.StringIO()
        write_csv(answer, text)
    assert list(csv.reader(io.StringIO(text.getvalue()))) == [
        ["schedule_idx", "value", "passed", "flags", "odd", "d"],
        ["0", "0.0", "false", "[]", 'a,"b"', "1.50"],
    ]
    with ask([paths], "select metrics, 1.50::decimal(4, 2) as d, null as n from scores limit 2") as answer:
        text = io.StringIO()
        write_json(answer, text)
    first = json.loads(text.getvalue())[0]
    assert first == {"metrics": {"fast": True, "gone": None, "steps": 0, "why": "it's"}, "d": 1.5, "n": None}
    with ask([paths], "select 1 where false") as answer:
        text = io.StringIO()
        write_json(answer, text)
    assert json.loads(text.getvalue()) == []


def test_parquet_pandas_and_arrow_agree(tmp_path: Path) -> None:
    import pyarrow.parquet  # type: ignore[import-untyped] # it has no types

    paths, target = made(tmp_path), tmp_path / "out.parquet"
    sql = "select schedule_idx, variant_id, value from trials order by 1"
    with ask([paths], sql) as answer:
        answer.write_parquet(target)
    table = arrow_table(sql, "made", log_dir=tmp_path)
    frame = pandas_table(sql, paths.root)
    assert pyarrow.parquet.read_table(target).to_pylist() == table.to_pylist()
    assert frame["schedule_idx"].tolist() == [row["schedule_idx"] for row in table.to_pylist()]
    assert len(frame) == 11


def test_text_that_a_spreadsheet_would_carry_out_is_disarmed_and_numbers_stay(tmp_path: Path) -> None:
    texts = ["=1+1", "+a", "-2 apples", "@x", "\ty", "-3", "plain", "it = x"]
    listed = ", ".join(f"({number}, '{text}', -{number}.5)" for number, text in enumerate(texts))
    stream = io.StringIO()
    with ask([made(tmp_path)], f"select * from (values {listed}) t(n, word, figure)") as answer:
        write_csv(answer, stream)
    rows = list(csv.reader(io.StringIO(stream.getvalue())))[1:]
    assert [row[1] for row in rows] == [
        "'=1+1", "'+a", "'-2 apples", "'@x", "'\ty", "-3", "plain", "it = x",
    ]  # fmt: skip
    assert [row[2] for row in rows] == [f"-{number}.5" for number in range(8)]


def test_outages_are_a_table_that_is_empty_where_there_were_none(tmp_path: Path) -> None:
    sql = "select run_id, cause, seconds, ended_by from outages order by began_at"
    paths = made(tmp_path)
    assert rows_of(paths, sql) == []
    at = "2026-01-01T00:0{}:00.000Z".format
    put_outage(paths, OutageNote(cause=Cause.PROVIDER, began_at=at(1), ended_at=at(3), end="answered"))
    put_outage(paths, OutageNote(cause=Cause.SANDBOX, began_at=at(5)))
    assert rows_of(paths, sql) == [
        ("made", "provider", 120.0, "answered"),
        ("made", "sandbox", None, None),
    ]
