import asyncio
import itertools
import os
import random
import sqlite3
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from labrunner.errors import RunLocked, StoreError
from labrunner.store.buffering.buffer import Event
from labrunner.store.checking.verification import verify
from labrunner.store.layout import RunPaths
from labrunner.store.reading.run_state import iter_finished
from labrunner.store.rows.lock import is_owned
from labrunner.store.writing.thread import LAZY_S
from labrunner.store.writing.writer import RunWriter, open_writer
from tests.kit.store.sample import committed_bytes, make_rows, make_run, make_status, trial_id_of

PLANNED = 6


@pytest.fixture
def paths(tmp_path: Path) -> RunPaths:
    return make_run(tmp_path, PLANNED)


async def finish(writer: RunWriter, idx: int, *, token: str | None = None, note: str = "") -> bool:
    return await writer.finish(make_rows(idx, note=note), token=token or f"token-{idx}")


async def finish_together(writer: RunWriter, slots: Sequence[int]) -> None:
    async with asyncio.TaskGroup() as group:
        for idx in slots:
            group.create_task(finish(writer, idx))


def table(paths: RunPaths, query: str) -> list[tuple[object, ...]]:
    connection = sqlite3.connect(paths.buffer)
    try:
        return connection.execute(query).fetchall()
    finally:
        connection.close()


async def test_slots_are_committed_in_order_and_wait_in_the_buffer_behind_a_gap(paths: RunPaths) -> None:
    async with open_writer(paths) as writer:
        assert await finish(writer, 2)
        assert (writer.next_idx, writer.counts().buffered) == (0, 1)
        assert paths.commits.read_bytes() == b""
        assert await finish(writer, 0)
        assert (writer.next_idx, writer.counts().buffered) == (1, 1)
        assert [writer.is_finished(idx) for idx in range(4)] == [True, False, True, False]
        assert await finish(writer, 1)
        await writer.settle()
        assert (writer.next_idx, writer.counts().buffered) == (3, 0)
        assert table(paths, "SELECT count(*) FROM completions") == [(0,)]
    assert [rows.schedule_idx for rows in iter_finished(paths)] == [0, 1, 2]


def write_in_order(folder: Path, rounds: Sequence[Sequence[int]]) -> dict[str, bytes]:
    """Finish slots round by round, those of one round together."""

    async def run() -> dict[str, bytes]:
        paths = make_run(folder, sum(map(len, rounds)))
        async with open_writer(paths) as writer:
            for slots in rounds:
                await finish_together(writer, slots)
        return committed_bytes(paths)

    return asyncio.run(run())


def test_every_order_of_completions_gives_the_same_bytes(tmp_path: Path) -> None:
    expected = write_in_order(tmp_path / "in-order", [[idx] for idx in range(4)])
    for number, order in enumerate(itertools.permutations(range(4))):
        assert write_in_order(tmp_path / str(number), [[idx] for idx in order]) == expected


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(order=st.permutations(range(9)), cuts=st.sets(st.integers(1, 8)))
def test_every_order_and_grouping_gives_the_same_bytes(
    order: list[int], cuts: set[int], tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("order")
    bounds = [0, *sorted(cuts), 9]
    rounds = [order[a:b] for a, b in itertools.pairwise(bounds)]
    expected = write_in_order(folder / "a", [[idx] for idx in range(9)])
    assert write_in_order(folder / "b", rounds) == expected


def test_a_long_wait_behind_a_gap_is_committed_in_several_groups(tmp_path: Path) -> None:
    order = [*range(1, 700), 0]
    expected = write_in_order(tmp_path / "a", [range(700)])
    assert write_in_order(tmp_path / "b", [order[:-1], order[-1:]]) == expected
    assert verify(RunPaths(tmp_path / "b" / "run-1")).committed == 700


async def test_the_same_rows_and_token_again_change_nothing(paths: RunPaths) -> None:
    async with open_writer(paths) as writer:
        assert await finish(writer, 1)
        assert await finish(writer, 1)
        assert writer.counts().buffered == 1
    assert len(table(paths, "SELECT * FROM completions")) == 1


@pytest.mark.parametrize(("token", "note"), [("another", ""), ("token-1", "changed")])
async def test_another_token_or_other_rows_for_a_finished_slot_are_refused(
    paths: RunPaths, token: str, note: str
) -> None:
    async with open_writer(paths) as writer:
        assert await finish(writer, 1)
        assert not await finish(writer, 1, token=token, note=note)
        assert await finish(writer, 0)
        assert not await finish(writer, 0)
        assert not await finish(writer, 1)
    assert [rows.schedule_idx for rows in iter_finished(paths)] == [0, 1]
    assert "changed" not in paths.predictions.read_text()


async def test_two_dispatches_that_finish_at_once_give_one_result(paths: RunPaths) -> None:
    async with open_writer(paths) as writer, asyncio.TaskGroup() as group:
        tasks = [group.create_task(finish(writer, 1, token=f"t{n}", note=str(n))) for n in range(5)]
    assert sorted(task.result() for task in tasks) == [False, False, False, False, True]
    assert len(list(iter_finished(paths))) == 1


async def test_a_slot_outside_the_schedule_is_refused(paths: RunPaths) -> None:
    async with open_writer(paths) as writer:
        assert not await finish(writer, PLANNED)


async def test_rows_against_their_schema_are_refused_and_the_writer_goes_on(paths: RunPaths) -> None:
    async with open_writer(paths) as writer:
        with pytest.raises(ValueError, match="belongs to"):
            await writer.finish(make_rows(0, run_id="another"), token="t")
        assert await finish(writer, 0)


async def test_rows_are_synced_before_the_line_and_the_line_before_anybody_is_told(
    paths: RunPaths, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[str, str]] = []
    lock = threading.Lock()

    def spy(name: str) -> None:
        real = getattr(os, name)

        def call(fd: int, *rest: object) -> object:
            result = real(fd, *rest)
            with lock:
                seen.append((name, Path(os.readlink(f"/proc/self/fd/{fd}")).name))
            return result

        monkeypatch.setattr(os, name, call)  # the order of calls is what the test is about

    async with open_writer(paths) as writer:
        spy("write")
        spy("fdatasync")
        assert await finish(writer, 0)
        assert await finish(writer, 1)
        told = len(seen)
        monkeypatch.undo()
    ours = [step for step in seen[:told] if step[1].endswith(".jsonl")]
    second = ours[ours.index(("fdatasync", "commits.jsonl")) + 1 :]
    rows = {"predictions.jsonl", "scores.jsonl", "trials.jsonl", "timings.jsonl"}
    assert {name for what, name in second[:4] if what == "write"} == rows
    assert {name for what, name in second[4:8] if what == "fdatasync"} == rows
    assert second[8:] == [("write", "commits.jsonl"), ("fdatasync", "commits.jsonl")]


@pytest.mark.parametrize("name", ["fdatasync", "write"])
async def test_after_a_failed_write_or_sync_nothing_more_is_written(
    paths: RunPaths, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    calls: list[int] = []

    def fail(fd: int, *rest: object) -> None:
        calls.append(fd)
        raise OSError(28, "No space left on device")

    async def own() -> None:
        async with open_writer(paths) as writer:
            assert await finish(writer, 0)
            monkeypatch.setattr(os, name, fail)  # a disk that fails at the wanted moment
            with pytest.raises(StoreError, match="the disk is full"):
                await finish(writer, 1)
            calls.clear()
            for idx in (1, 2, 3):
                with pytest.raises(StoreError, match="storage failed: "):
                    await finish(writer, idx)
            with pytest.raises(StoreError, match="storage failed: "):
                await writer.write_status(make_status(PLANNED))

    with pytest.raises(StoreError, match="the disk is full"):
        await own()
    monkeypatch.undo()
    assert calls == []
    assert [rows.schedule_idx for rows in iter_finished(paths)] == [0]
    assert not is_owned(paths)
    async with open_writer(paths) as writer:
        assert await finish(writer, 1)
    assert verify(paths).problems == ()


async def test_a_second_writer_is_refused_while_the_first_is_open(paths: RunPaths) -> None:
    async with open_writer(paths) as writer:
        with pytest.raises(RunLocked, match=f"process {os.getpid()}"):
            async with open_writer(paths):
                pass
        assert await finish(writer, 0)
    assert not is_owned(paths)


async def test_a_cancelled_task_leaves_the_run_whole_and_free(paths: RunPaths) -> None:
    begun = asyncio.Event()

    async def own() -> None:
        async with open_writer(paths) as writer:
            await finish(writer, 1)
            begun.set()
            await asyncio.Event().wait()

    async with asyncio.TaskGroup() as group:
        task = group.create_task(own())
        await begun.wait()
        task.cancel()
    assert not is_owned(paths)
    assert [rows.schedule_idx for rows in iter_finished(paths)] == [1]


async def test_what_comes_late_of_an_attempt_that_was_cut_off_is_refused(paths: RunPaths) -> None:
    async with open_writer(paths) as writer:
        await writer.note_dispatch("lost", 0, trial_id_of(0), 1, durable=True)
        await writer.note_cut_off("lost")
        assert not await finish(writer, 0, token="lost"), "before its slot is carried out again"
        await writer.note_dispatch("next", 0, trial_id_of(0), 1, durable=True)
        assert not await finish(writer, 0, token="lost"), "while it is carried out again"
        with pytest.raises(ValueError, match="no attempt with token lost"):
            await writer.note_barrier("lost", b"{}", durable=True)
        assert await finish(writer, 0, token="next")
        assert not await finish(writer, 0, token="lost"), "when it is final"
    assert [rows.schedule_idx for rows in iter_finished(paths)] == [0]


async def test_notes_that_need_not_be_durable_are_stored_soon_and_dropped_with_their_slot(
    paths: RunPaths,
) -> None:
    async with open_writer(paths) as writer:
        await writer.note_dispatch("a", 3, trial_id_of(3), 1, durable=False)
        await writer.note_dispatch("b", 4, trial_id_of(4), 1, durable=True)
        found = table(paths, "SELECT token, state FROM attempts ORDER BY token")
        assert found == [("a", "dispatched"), ("b", "dispatched")]
        await writer.note_barrier("a", b'{"x":1}', durable=False)
        await writer.note_grader_started("b", durable=True)
        found = table(paths, "SELECT token, state, barrier, grader_started FROM attempts ORDER BY token")
        assert found == [("a", "barrier", b'{"x":1}', 0), ("b", "grading", None, 1)]
        writer.note_node("a", "gpu-3/4f1c09ab")
        await writer.note_grader_started("b", durable=True)
        assert table(paths, "SELECT token, node FROM nodes") == [("a", "gpu-3/4f1c09ab")]
        await finish(writer, 3)
        assert table(paths, "SELECT token FROM attempts") == [("b",)]
        assert table(paths, "SELECT token FROM nodes") == []
    assert table(paths, "SELECT token FROM attempts") == [("b",)]


async def test_a_lazy_note_reaches_the_buffer_without_anybody_asking(paths: RunPaths) -> None:
    async with open_writer(paths) as writer, asyncio.timeout(20):
        for number in range(1, 3):
            await writer.note_dispatch(f"t{number}", number, trial_id_of(number), 1, durable=False)
            while len(table(paths, "SELECT token FROM attempts")) < number:
                await asyncio.sleep(0.01)
            await asyncio.sleep(3 * LAZY_S)  # with nothing left to do its thread sleeps until it is woken


async def test_a_note_for_an_unknown_token_is_refused(paths: RunPaths) -> None:
    async with open_writer(paths) as writer:
        with pytest.raises(ValueError, match="no attempt with token nobody"):
            await writer.note_barrier("nobody", b"", durable=True)
        assert await finish(writer, 0)


async def test_events_are_kept_until_their_slot_is_finished(paths: RunPaths) -> None:
    async with open_writer(paths) as writer:
        for seq in range(3):
            writer.put_event(Event(trial_id=trial_id_of(1), attempt=1, seq=seq, json=b"{}"))
        await writer.settle()
        assert table(paths, "SELECT seq FROM events") == [(0,), (1,), (2,)]
        await finish(writer, 1)
        await writer.settle()
        assert table(paths, "SELECT seq FROM events") == []


async def test_status_and_summary_are_checked_before_they_are_written(paths: RunPaths) -> None:
    async with open_writer(paths) as writer:
        with pytest.raises(ValueError, match="benchmark_summary_v1"):
            await writer.write_summary(b"{}")
        assert not paths.summary.exists()
        await writer.write_status(make_status(PLANNED))
        assert b'"started"' in paths.status.read_bytes()


async def test_memory_does_not_grow_with_what_waits_behind_a_gap(tmp_path: Path) -> None:
    paths = make_run(tmp_path, 3000)
    order = list(range(1, 3000))
    random.Random(7).shuffle(order)
    async with open_writer(paths) as writer:
        for start in range(0, len(order), 250):
            await finish_together(writer, order[start : start + 250])
        assert writer.counts().buffered == 2999
        finished = writer._committer.finished
        assert len(finished._bits) == 375
        assert writer._committer.book.notes() == ()


async def test_whoever_waits_for_a_writer_that_dies_is_told(
    paths: RunPaths, monkeypatch: pytest.MonkeyPatch
) -> None:
    def die(*_: object, **__: object) -> None:
        raise MemoryError

    async def wait_for_it() -> None:
        async with asyncio.timeout(20), open_writer(paths) as writer:
            # A bug of ours in the thread: none is known that could be had otherwise.
            monkeypatch.setattr("labrunner.store.writing.thread.WriterThread._answer", die)
            with pytest.raises(StoreError, match="MemoryError"):
                await finish(writer, 0)
            await finish(writer, 1)

    with pytest.raises(StoreError, match="MemoryError"):
        await wait_for_it()
