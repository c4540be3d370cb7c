import asyncio
import os
import shutil
import sqlite3
import subprocess
from pathlib import Path

import pytest

from labrunner.errors import DamagedRun, StoreError
from labrunner.records.encoding import canonical
from labrunner.records.run import RunStatus
from labrunner.store.layout import RunPaths
from labrunner.store.reading.run_state import iter_finished, iter_trials, read_run, read_state, read_status
from labrunner.store.rows.lock import acquire
from labrunner.store.rows.slot_bytes import encode_payload, encode_slot
from labrunner.store.writing.writer import open_writer
from tests.kit.store.sample import make_rows, make_run, make_status

PLANNED = 8


@pytest.fixture
def paths(tmp_path: Path) -> RunPaths:
    return make_run(tmp_path, PLANNED)


def write(paths: RunPaths, *slots: int) -> None:
    async def run() -> None:
        async with open_writer(paths) as writer:
            for idx in slots:
                await writer.finish(make_rows(idx), token="t")

    asyncio.run(run())


def test_finished_slots_come_back_as_they_were_written_committed_first(paths: RunPaths) -> None:
    write(paths, 0, 1, 2, 7, 5)
    assert list(iter_finished(paths)) == [make_rows(idx) for idx in (0, 1, 2, 5, 7)]
    assert list(iter_trials(paths)) == [make_rows(idx).trial for idx in (0, 1, 2, 5, 7)]


def test_nothing_beyond_the_journal_is_read(paths: RunPaths) -> None:
    write(paths, 0, 1)
    for path in (paths.predictions, paths.scores, paths.trials, paths.timings):
        with path.open("ab") as file:
            file.write(b"garbage that no commit vouches for\n")
    assert list(iter_finished(paths)) == [make_rows(0), make_rows(1)]


def test_a_torn_last_line_of_the_journal_is_left_out(paths: RunPaths) -> None:
    write(paths, 0, 1, 2)
    paths.commits.write_bytes(paths.commits.read_bytes()[:-3])
    assert [row.schedule_idx for row in iter_trials(paths)] == [0, 1]


def test_a_damaged_journal_is_told_apart_from_a_torn_one(paths: RunPaths) -> None:
    write(paths, 0, 1, 2)
    paths.commits.write_bytes(paths.commits.read_bytes().replace(b'"attempt":1', b'"attempt":2', 1))
    with pytest.raises(DamagedRun, match="line 1 is damaged"):
        list(iter_trials(paths))


async def test_every_slot_finished_before_is_seen_while_the_run_goes_on(tmp_path: Path) -> None:
    """Readers race with a writer that moves slots from the buffer to the files all the time."""
    paths = make_run(tmp_path, 300)
    order = [idx ^ 7 for idx in range(296)]
    finished: set[int] = set()
    rounds = 0
    async with open_writer(paths) as writer, asyncio.TaskGroup() as group:

        async def write_all() -> None:
            for idx in order:
                await writer.finish(make_rows(idx), token="t")
                finished.add(idx)

        task = group.create_task(write_all())
        while not task.done():
            before = frozenset(finished)
            seen = await asyncio.to_thread(lambda: [row.schedule_idx for row in iter_trials(paths)])
            assert before <= set(seen)
            assert len(seen) == len(set(seen))
            rounds += 1
    assert rounds > 3


@pytest.mark.parametrize(
    ("status", "is_owned", "state"),
    [
        ("started", True, "started"),
        ("started", False, "crashed"),
        ("success", False, "success"),
        ("error", False, "error"),
        ("cancelled", False, "cancelled"),
        ("cancelled", True, "started"),
        (None, False, "crashed"),
        (None, True, "started"),
    ],
)
def test_state_is_the_status_unless_nobody_owns_a_started_run(
    paths: RunPaths, status: RunStatus | None, is_owned: bool, state: str
) -> None:
    if status is not None:
        paths.status.write_bytes(canonical.encode_line(make_status(PLANNED, status)))
    if is_owned:
        with acquire(paths):
            assert read_state(paths) == state
    else:
        assert read_state(paths) == state


def test_an_unknown_version_is_refused_with_a_sentence(paths: RunPaths) -> None:
    paths.status.write_bytes(canonical.encode_line(make_status(PLANNED)).replace(b"status_v1", b"status_v2"))
    with pytest.raises(StoreError, match="schema_version is 'status_v2', and this program knows 'status_v1'"):
        read_status(paths)


@pytest.mark.parametrize("text", [b"", b"{", b"[]", b"\xff", b'{"schema_version":"run_v1"}'])
def test_a_run_record_that_is_none_is_damage(paths: RunPaths, text: bytes) -> None:
    paths.run.write_bytes(text)
    with pytest.raises(DamagedRun, match="not a run_v1"):
        read_run(paths)


def test_a_folder_without_a_run_record_is_no_run(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="no run's directory"):
        read_run(RunPaths(tmp_path))


@pytest.mark.root
def test_results_that_wait_are_read_from_a_folder_that_cannot_be_written_to(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can mount a folder read-only")
    paths = make_run(tmp_path / "runs", 6)
    kept = sqlite3.connect(paths.buffer, isolation_level=None)
    slot = encode_slot("run-1", make_rows(3))
    row = (slot.digest, encode_payload(slot))
    kept.execute("INSERT INTO completions VALUES (3, 1, 't', ?, ?)", row)
    shutil.copytree(paths.root, tmp_path / "copy" / "run-1", ignore=shutil.ignore_patterns("*-shm"))
    kept.close()
    subprocess.run(["mount", "--bind", tmp_path / "copy", tmp_path / "copy"], check=True)
    try:
        subprocess.run(["mount", "-o", "remount,bind,ro", tmp_path / "copy"], check=True)
        found = [rows.schedule_idx for rows in iter_finished(RunPaths(tmp_path / "copy" / "run-1"))]
    finally:
        subprocess.run(["umount", "--lazy", tmp_path / "copy"], check=True)
    assert found == [3]
