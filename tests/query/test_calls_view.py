"""The view `calls`: what agents asked of models, recorded by the real gateway."""

import shutil
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from labrunner.errors import DamagedRun
from labrunner.gateway.recording.doorjournal import open_doors
from labrunner.query.database import ask
from labrunner.records.encoding.ids import Ids
from labrunner.records.facts.door_event import DoorEvent
from labrunner.store.layout import RunPaths
from tests.kit.gateway.provider import Fail
from tests.kit.gateway.talking import FIRST, LAST, Say, Talked, chat, user, write_talked_run


def rows_of(paths: RunPaths, sql: str) -> list[tuple[Any, ...]]:
    with ask([paths], sql) as answer:
        return list(answer.rows())


@pytest.fixture
def paths(tmp_path: Path) -> RunPaths:
    first = Talked(
        said=[chat(user("hello"), stream=True), chat(user("again"))], plan=["answer", Fail(status=429)]
    )
    second = Talked(
        said=[
            chat(user("x"), web_search_options={"a": 1}),
            Say(path="/openai/v1/nothing", body={}),
            chat(user("y")),
        ],
        plan=["answer", Fail(status=400, kind="bad_request")],
    )
    return write_talked_run(tmp_path, {FIRST: first, LAST: second})


def test_each_call_is_a_row_with_whose_it_is_and_what_came_of_it(paths: RunPaths) -> None:
    found = rows_of(
        paths,
        "select trial_id, variant_id, task_id, repl_idx, attempt, ordinal, provider, model, purpose, "
        "streaming, outcome, status, tries, input_tokens, output_tokens, reasoning_tokens, basis, cost_usd, "
        "error_kind, taken_out from calls order by trial_id, ordinal",
    )
    spent = (120, 30, 12, "reported", 0.00042)
    nothing = (None, None, None, None, None)
    assert [row[:6] for row in found] == [
        (FIRST, "a", "t0", 0, 1, 0),
        (FIRST, "a", "t0", 0, 1, 1),
        (LAST, "b", "t1", 0, 1, 0),
        (LAST, "b", "t1", 0, 1, 1),
        (LAST, "b", "t1", 0, 1, 2),
    ]
    assert [row[6:13] for row in found] == [
        ("openai", "m", "generate", True, "answered", 200, 0),
        ("openai", "m", "generate", False, "answered", 200, 1),
        ("openai", "m", "generate", False, "answered", 200, 0),
        ("openai", None, "unknown", False, "declined", 404, 0),
        ("openai", "m", "generate", False, "error", 400, 0),
    ]
    assert [row[13:18] for row in found] == [spent, spent, spent, nothing, nothing]
    assert [row[18] for row in found] == [None, None, None, "not_found_error", "bad_request"]
    assert [row[19] for row in found] == [[], [], ["web_search"], [], []]


def test_times_are_times_and_seconds_are_between_them(paths: RunPaths) -> None:
    sql = "select started_at, first_byte_at, ended_at, seconds, priced_on, price_source from calls limit 1"
    ((started, first, ended, seconds, priced_on, source),) = rows_of(paths, sql)
    assert all(isinstance(each, datetime) for each in (started, first, ended))
    assert started <= first <= ended
    assert seconds == pytest.approx((ended - started).total_seconds())
    assert priced_on == started.date()
    assert source == "experiment"


def test_a_query_that_names_few_columns_and_one_that_joins_are_answered(paths: RunPaths) -> None:
    joined = rows_of(
        paths,
        "select t.verdict, count(*), sum(c.cost_usd) from calls c join trials t using (run_id, trial_id) "
        "group by 1",
    )
    assert joined == [("pass", 5, pytest.approx(3 * 0.00042))]
    assert rows_of(paths, "select count(*) from calls") == [(5,)]


def test_attempts_that_were_cut_off_or_are_under_way_have_their_calls_too(paths: RunPaths) -> None:
    made = paths.trial(FIRST) / "1"
    shutil.copytree(made, paths.trial(FIRST) / "1.cut-1")
    with (paths.trial(FIRST) / "1.cut-1" / "calls.jsonl").open("ab") as file:
        file.write(b'{"torn":')
    found = rows_of(paths, "select cut_off, count(*) from calls group by 1 order by 1")
    assert found == [(False, 5), (True, 2)]


@pytest.mark.parametrize("how", ["gone", "edited", "nonsense"])
def test_calls_that_are_not_what_their_row_says_are_told(paths: RunPaths, how: str) -> None:
    path = paths.attempt(FIRST, 1) / "calls.jsonl"
    if how == "gone":
        path.unlink()
    elif how == "edited":
        path.write_bytes(path.read_bytes().replace(b'"output":30', b'"output":31'))
    else:
        path.write_bytes(b"nonsense\n")
    with pytest.raises(DamagedRun, match=r"calls\.jsonl.*lab verify"):
        rows_of(paths, "select * from calls")
    assert rows_of(paths, "select count(*) from trials") == [(4,)]


def test_connections_to_hosts_are_rows_of_their_own(paths: RunPaths) -> None:
    folder = paths.trial(FIRST) / "2"
    folder.mkdir()
    journal = open_doors(folder)
    ids = Ids(run_id="made", trial_id=FIRST, variant_id="a", task_id="t0", repl_idx=0)
    at = "2026-01-05T00:00:00.000Z"
    for end, reason in (("refused", "not_allowed"), ("closed", None)):
        journal.write(
            DoorEvent(
                schema_version="door_event_v1",
                ids=ids,
                attempt=2,
                ordinal=0,
                phase="agent",
                way="tunnel",
                host="example.com",
                port=443,
                end=end,  # type: ignore[arg-type] # one of its words
                reason=reason,  # type: ignore[arg-type] # one of its words
                started_at=at,
                ended_at=at,
                received=7,
            )
        )
    journal.close()
    found = rows_of(
        paths, "select trial_id, attempt, host, port, outcome, reason, received, times from doors"
    )
    assert found == [
        (FIRST, 2, "example.com", 443, "refused", "not_allowed", 7, 1),
        (FIRST, 2, "example.com", 443, "closed", None, 7, 1),
    ]
