"""Opening what a crash, or something worse, left behind."""

import asyncio
import json
import os
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from labrunner.errors import DamagedRun, StoreError
from labrunner.records.encoding import canonical
from labrunner.store.checking.verification import verify
from labrunner.store.layout import RunPaths
from labrunner.store.opening.opening import OpeningReport
from labrunner.store.reading.run_state import iter_finished, read_crashes
from labrunner.store.writing.writer import RunWriter, open_writer
from tests.kit.store.sample import committed_bytes, make_rows, make_run, make_status, trial_id_of

PLANNED = 6


async def finish(writer: RunWriter, *slots: int) -> None:
    for idx in slots:
        assert await writer.finish(make_rows(idx), token=f"token-{idx}")


def write(paths: RunPaths, *slots: int, status: bool = False) -> OpeningReport:
    """Open a run, finish some slots, and leave it."""

    async def run() -> OpeningReport:
        async with open_writer(paths) as writer:
            if status:
                await writer.write_status(make_status(PLANNED))
            await finish(writer, *slots)
            return writer.opening

    return asyncio.run(run())


@pytest.fixture
def half(tmp_path: Path) -> RunPaths:
    """Slots 0, 1, 2 committed, 4 in the buffer."""
    paths = make_run(tmp_path, PLANNED)
    write(paths, 0, 1, 2, 4)
    return paths


def tree(paths: RunPaths) -> dict[str, bytes]:
    """Every file but the database, which may rearrange itself, and the lock's text."""
    return {
        paths.name(path): path.read_bytes()
        for path in sorted(paths.root.rglob("*"))
        if path.is_file() and not path.name.startswith(("buffer.sqlite", "lock"))
    }


def finish_and_compare(paths: RunPaths, tmp_path: Path) -> None:
    owed = sorted(set(range(PLANNED)) - {rows.schedule_idx for rows in iter_finished(paths)})
    write(paths, *owed)
    other = make_run(tmp_path / "undisturbed", PLANNED)
    write(other, *range(PLANNED))
    assert committed_bytes(paths) == committed_bytes(other)
    assert verify(paths).problems == ()


def files(paths: RunPaths) -> dict[str, Path]:
    return {
        "predictions": paths.predictions,
        "scores": paths.scores,
        "trials": paths.trials,
        "timings": paths.timings,
        "commits": paths.commits,
    }


def test_opening_twice_changes_nothing(half: RunPaths) -> None:
    write(half)
    before = tree(half)
    report = write(half)
    assert tree(half) == before
    assert (report.is_crash, dict(report.cut_bytes), report.restored, report.in_flight) == (False, {}, 0, ())


@pytest.mark.parametrize("name", ["predictions", "scores", "trials", "timings", "commits"])
@pytest.mark.parametrize(
    "garbage",
    [
        b"\x00" * 100,
        b"\x00" * 5000 + b"\n" + b"\x00" * 7,
        '{"é'.encode()[:-1],
        b'{"schedule_idx":4',
        b"\r\n\r",
        b"\n",
    ],
)
def test_garbage_at_the_end_is_cut_and_kept_in_salvage(
    half: RunPaths, name: str, garbage: bytes, tmp_path: Path
) -> None:
    path = files(half)[name]
    before = path.read_bytes()
    path.write_bytes(before + garbage)
    report = write(half)
    assert path.read_bytes() == before
    assert report.cut_bytes == {half.name(path): len(garbage)}
    (kept,) = half.salvage.iterdir()
    assert kept.read_bytes() == garbage
    finish_and_compare(half, tmp_path)


def test_a_doubled_last_line_of_the_journal_is_damage(half: RunPaths) -> None:
    before = half.commits.read_bytes()
    half.commits.write_bytes(before + before.splitlines(keepends=True)[-1])
    with pytest.raises(DamagedRun, match=r"line 4 is of slot 2, not 3; .* nothing was changed"):
        write(half)


@pytest.mark.parametrize("name", ["trials", "scores", "timings"])
def test_a_doubled_last_row_is_cut(half: RunPaths, name: str, tmp_path: Path) -> None:
    path = files(half)[name]
    before = path.read_bytes()
    path.write_bytes(before + before.splitlines(keepends=True)[-1])
    write(half)
    assert path.read_bytes() == before
    finish_and_compare(half, tmp_path)


def make_other(folder: Path, count: int) -> RunPaths:
    other = make_run(folder / "other", PLANNED, run_id="run-2")

    async def run() -> None:
        async with open_writer(other) as writer:
            for idx in range(count):
                await writer.finish(make_rows(idx, run_id="run-2"), token="t")

    asyncio.run(run())
    return other


@pytest.mark.parametrize("keep", [0, 3])
def test_a_journal_with_lines_of_another_run_is_damage(half: RunPaths, keep: int, tmp_path: Path) -> None:
    other = make_other(tmp_path, 4)
    mine = half.commits.read_bytes().splitlines(keepends=True)[:keep]
    half.commits.write_bytes(b"".join(mine) + other.commits.read_bytes().splitlines(keepends=True)[-1])
    before = tree(half)
    with pytest.raises(DamagedRun, match=f"line {keep + 1} belongs to run run-2"):
        write(half)
    assert tree(half) == before
    assert any("run-2" in problem.what for problem in verify(half).problems)


@pytest.mark.parametrize("count", [3, 4])
@pytest.mark.parametrize("name", ["trials", "scores", "timings"])
def test_a_row_of_another_run_at_the_end_is_cut(
    half: RunPaths, name: str, count: int, tmp_path: Path
) -> None:
    other = make_other(tmp_path, count)
    path = files(half)[name]
    before = path.read_bytes()
    path.write_bytes(before + files(other)[name].read_bytes().splitlines(keepends=True)[-1])
    write(half)
    assert path.read_bytes() == before
    finish_and_compare(half, tmp_path)


@pytest.mark.usefixtures("unsynced")
def test_the_journal_cut_at_any_of_its_last_bytes_owes_only_the_torn_slot(tmp_path: Path) -> None:
    whole = make_run(tmp_path / "whole", PLANNED)
    write(whole, 0, 1, 2)
    journal = whole.commits.read_bytes()
    last = len(journal.splitlines(keepends=True)[-1])
    for cut in range(1, min(300, last) + 1):
        paths = make_run(tmp_path / str(cut), PLANNED)
        for name, path in files(whole).items():
            files(paths)[name].write_bytes(path.read_bytes())
        paths.commits.write_bytes(journal[:-cut])
        assert [rows.schedule_idx for rows in iter_finished(paths)] == [0, 1]
        report = write(paths)
        assert report.cut_bytes.get("commits.jsonl", 0) == last - cut
        assert [rows.schedule_idx for rows in iter_finished(paths)] == [0, 1]
        assert verify(paths).problems == ()
        if cut % 50 == 1:
            finish_and_compare(paths, tmp_path / f"check-{cut}")


@pytest.mark.usefixtures("unsynced")
@pytest.mark.parametrize("name", ["predictions", "scores", "trials", "timings"])
def test_rows_beyond_the_journal_torn_at_any_byte_are_cut(tmp_path: Path, name: str) -> None:
    whole = make_run(tmp_path / "whole", PLANNED)
    write(whole, 0, 1, 2, 3)
    paths = make_run(tmp_path / "run", PLANNED)
    write(paths, 0, 1, 2)
    before = tree(paths)
    path, content = files(paths)[name], files(whole)[name].read_bytes()
    keep = path.stat().st_size
    assert content.startswith(path.read_bytes())
    for end in range(len(content), max(keep, len(content) - 300), -1):
        path.write_bytes(content[:end])
        write(paths)
        assert {key: data for key, data in tree(paths).items() if not key.startswith("salvage")} == before


@pytest.mark.parametrize("name", ["predictions", "scores", "trials"])
def test_rows_shorter_than_committed_are_damage_at_any_of_their_last_bytes(half: RunPaths, name: str) -> None:
    path = files(half)[name]
    content = path.read_bytes()
    for cut in range(1, min(300, len(content)) + 1, 7):
        path.write_bytes(content[:-cut])
        before = tree(half)
        with pytest.raises(DamagedRun, match="nothing was changed"):
            write(half)
        assert tree(half) == before


def test_timings_without_the_last_committed_row_are_damage(half: RunPaths) -> None:
    half.timings.write_bytes(half.timings.read_bytes()[:-1])
    with pytest.raises(DamagedRun, match="no row of slot 2, which is committed"):
        write(half)


def flip(path: Path, at: int) -> None:
    content = bytearray(path.read_bytes())
    content[at] ^= 0x01
    path.write_bytes(bytes(content))


@pytest.mark.parametrize("line", [0, 1])
def test_a_flipped_bit_in_the_middle_of_the_journal_is_damage_and_nothing_is_cut(
    half: RunPaths, line: int
) -> None:
    lines = half.commits.read_bytes().splitlines(keepends=True)
    start = sum(map(len, lines[:line]))
    original = half.commits.read_bytes()
    for at in range(start, start + len(lines[line]), 11):
        flip(half.commits, at)
        before = tree(half)
        with pytest.raises(DamagedRun, match=f"line {line + 1} (is damaged|is of slot|belongs to run)"):
            write(half)
        assert tree(half) == before
        assert verify(half).problems != ()
        half.commits.write_bytes(original)
    write(half)


@pytest.mark.parametrize("name", ["predictions", "scores", "trials"])
def test_a_flipped_bit_in_committed_rows_is_damage_and_nothing_is_cut(half: RunPaths, name: str) -> None:
    path = files(half)[name]
    original = path.read_bytes()
    for at in range(0, len(original), 37):
        flip(path, at)
        before = tree(half)
        with pytest.raises(DamagedRun, match=r"nothing was changed|and do not"):
            write(half)
        assert tree(half) == before
        path.write_bytes(original)
    write(half)


def test_a_journal_whose_file_is_gone_is_refused(half: RunPaths) -> None:
    half.commits.unlink()
    with pytest.raises(StoreError, match=r"commits\.jsonl"):
        write(half)


def test_what_is_contiguous_in_the_buffer_is_committed(tmp_path: Path) -> None:
    paths = make_run(tmp_path, PLANNED)
    write(paths, 1, 2)
    with sqlite3.connect(paths.buffer) as connection:
        rows = connection.execute("SELECT * FROM completions").fetchall()
    connection.close()
    write(paths, 0)
    # As if the owner had died before it dropped what it had committed, and before it committed the rest.
    journal = paths.commits.read_bytes().splitlines(keepends=True)
    paths.commits.write_bytes(b"".join(journal[:2]))
    with sqlite3.connect(paths.buffer) as connection:
        connection.executemany("INSERT INTO completions VALUES (?,?,?,?,?)", rows)
    connection.close()
    report = write(paths)
    assert report.restored == 1
    assert paths.commits.read_bytes().splitlines(keepends=True) == journal
    assert verify(paths).buffered == 0
    finish_and_compare(paths, tmp_path)


def break_header(path: Path) -> None:
    path.write_bytes(b"not a database at all" * 100)


def break_pages(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[4096:] = os.urandom(len(content) - 4096)
    path.write_bytes(bytes(content))


@pytest.mark.parametrize(
    "break_it", [break_header, break_pages, Path.unlink, lambda path: path.write_bytes(b"")]
)
def test_a_broken_buffer_costs_what_was_not_committed_and_is_reported(
    half: RunPaths, break_it: Callable[[Path], None], tmp_path: Path
) -> None:
    half.status.write_bytes(canonical.encode_line(make_status(PLANNED, committed=3, buffered=1)))
    committed = committed_bytes(half)
    break_it(half.buffer)
    report = write(half)
    assert report.lost_buffer is not None
    assert "1 finished results that were not committed are lost" in report.lost_buffer
    assert committed_bytes(half) == committed
    assert [rows.schedule_idx for rows in iter_finished(half)] == [0, 1, 2]
    finish_and_compare(half, tmp_path)


def test_readers_show_committed_rows_while_the_buffer_is_broken(half: RunPaths) -> None:
    break_header(half.buffer)
    assert [rows.schedule_idx for rows in iter_finished(half)] == [0, 1, 2]
    assert any(problem.file == "buffer.sqlite" for problem in verify(half).problems)


def test_a_buffered_row_that_was_changed_is_dropped_and_owed_again(half: RunPaths, tmp_path: Path) -> None:
    with sqlite3.connect(half.buffer) as connection:
        connection.execute("UPDATE completions SET payload = replace(payload, 'pass', 'fail')")
        connection.execute("UPDATE completions SET digest = 'sha256:x'")
    connection.close()
    report = write(half)
    assert report.dropped_slots == (4,)
    assert [path.name.split(".")[:2] for path in half.salvage.iterdir()] == [["completion", "4"]]
    finish_and_compare(half, tmp_path)


def test_a_buffer_of_a_newer_version_is_refused_with_a_sentence(half: RunPaths) -> None:
    with sqlite3.connect(half.buffer) as connection:
        connection.execute("PRAGMA user_version = 9")
    connection.close()
    with pytest.raises(StoreError, match="its version 9 is newer than this program knows"):
        write(half)


def test_a_crash_leaves_one_note_with_what_was_in_flight(tmp_path: Path) -> None:
    paths = make_run(tmp_path, PLANNED)

    async def crash() -> None:
        async with open_writer(paths) as writer:
            await writer.write_status(make_status(PLANNED))
            await finish(writer, 0, 2)
            await writer.note_dispatch("a", 1, trial_id_of(1), 1, durable=True)
            await writer.note_dispatch("b", 3, trial_id_of(3), 2, durable=True)
            await writer.note_barrier("b", b'{"exit_status":0}', durable=True)

    asyncio.run(crash())
    report = write(paths)
    assert report.is_crash
    assert paths.crash(1).exists()
    assert sorted((note.schedule_idx, note.attempt, note.state) for note in report.in_flight) == [
        (1, 1, "dispatched"),
        (3, 2, "barrier"),
    ]
    assert write(paths).is_crash
    (note,) = read_crashes(paths)
    assert (note.committed, note.buffered, len(note.in_flight)) == (1, 1, 2)
    assert note.last_owner is not None
    assert note.rebooted is False


def test_a_crash_note_tells_that_the_machine_was_started_again(tmp_path: Path) -> None:
    paths = make_run(tmp_path, PLANNED)

    async def crash() -> None:
        async with open_writer(paths) as writer:
            await writer.write_status(make_status(PLANNED))

    asyncio.run(crash())
    owner = json.loads(paths.lock.read_bytes())
    paths.lock.write_text(json.dumps(owner | {"boot_id": "an-earlier-boot"}))
    write(paths)
    (note,) = read_crashes(paths)
    assert note.rebooted is True


@pytest.mark.parametrize("left", ["", '{"pid":', '{"boot_id":"","host":"h","pid":1,"since":"then"}'])
def test_an_owner_that_nobody_knows_may_have_been_of_another_boot(tmp_path: Path, left: str) -> None:
    paths = make_run(tmp_path, PLANNED)

    assert not [write(paths), write(paths)][1].has_rebooted
    paths.lock.write_text(left)

    assert write(paths).has_rebooted


def test_a_run_that_ended_in_order_has_no_crash(tmp_path: Path) -> None:
    paths = make_run(tmp_path, PLANNED)

    async def end() -> None:
        async with open_writer(paths) as writer:
            await writer.write_status(make_status(PLANNED, "cancelled"))

    asyncio.run(end())
    assert not write(paths).is_crash
    assert read_crashes(paths) == []


def test_a_second_crash_leaves_a_second_note(tmp_path: Path) -> None:
    paths = make_run(tmp_path, PLANNED)

    async def crash(at: str) -> None:
        async with open_writer(paths) as writer:
            await writer.write_status(make_status(PLANNED, updated_at=at))

    for number in range(3):
        asyncio.run(crash(f"2026-01-01T00:00:0{number}Z"))
    assert [note.status_updated_at for note in read_crashes(paths)] == [
        "2026-01-01T00:00:00Z",
        "2026-01-01T00:00:01Z",
    ]


def test_an_unknown_version_is_refused_with_a_sentence(half: RunPaths) -> None:
    half.run.write_bytes(half.run.read_bytes().replace(b"run_v1", b"run_v7"))
    with pytest.raises(StoreError, match="schema_version is 'run_v7', and this program knows 'run_v1'"):
        write(half)
