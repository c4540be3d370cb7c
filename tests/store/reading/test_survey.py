import fcntl
import os
from pathlib import Path

import pytest

from labrunner.errors import DamagedRun
from labrunner.experiment.schedule import Slot
from labrunner.records.cause import Cause
from labrunner.store.checking.invalidations import read_invalidations
from labrunner.store.layout import RunPaths
from labrunner.store.reading.run_state import iter_finished
from labrunner.store.reading.survey import PIECE_BYTES, read_pieces, survey
from tests.kit.made_runs import Told, make_grid, mark, write_run


def script(slot: Slot) -> Told | None:
    if slot.schedule_idx == 9:
        return None
    if slot.schedule_idx % 5 == 0:
        return Told(value=None, errors=(Cause.SANDBOX,))
    return Told(value=float(slot.schedule_idx % 2), errors=(Cause.PROVIDER,) * (slot.schedule_idx % 3 == 0))


def made(tmp_path: Path) -> RunPaths:
    return write_run(tmp_path, make_grid(tasks=3, replications=2), script)


def test_it_sees_what_the_slow_reader_sees_buffered_slots_included(tmp_path: Path) -> None:
    paths = made(tmp_path)
    with survey(paths) as seen:
        assert seen.committed == 9
        found = [
            (
                trial.schedule_idx,
                trial.ids.trial_id,
                trial.verdict,
                len(trial.attempts),
                timing.attempts[-1].ended_at,
            )
            for trial, timing in seen.finished()
        ]
    expected = [
        (
            rows.schedule_idx,
            rows.trial_id,
            rows.trial.verdict,
            len(rows.trial.attempts),
            rows.timing.attempts[-1].ended_at,
        )
        for rows in iter_finished(paths)
    ]
    assert found == expected
    assert [row[0] for row in found] == [*range(9), 10, 11]


def test_what_lies_beyond_the_journal_is_not_looked_at(tmp_path: Path) -> None:
    paths = made(tmp_path)
    for path in (paths.trials, paths.timings, paths.commits):
        with path.open("ab") as file:
            file.write(b'{"half": "a li')
    with survey(paths) as seen:
        assert len(list(seen.finished())) == 11


def test_a_whole_row_beyond_the_journal_is_not_looked_at_either(tmp_path: Path) -> None:
    paths = made(tmp_path)
    last = paths.timings.read_bytes().splitlines(keepends=True)[-1]
    with paths.timings.open("ab") as file:
        file.write(last)
    with survey(paths) as seen:
        assert len(list(seen.finished())) == 11


@pytest.mark.parametrize("name", ["trials", "timings"])
def test_a_file_with_fewer_rows_than_are_committed_is_damaged(tmp_path: Path, name: str) -> None:
    paths = made(tmp_path)
    path: Path = getattr(paths, name)
    os.truncate(path, path.stat().st_size // 2)
    with pytest.raises(DamagedRun, match="are committed"), survey(paths) as seen:
        list(seen.finished())


def test_an_empty_run_has_nothing_finished(tmp_path: Path) -> None:
    paths = write_run(tmp_path, make_grid(), lambda slot: None)
    with survey(paths) as seen:
        assert (seen.committed, list(seen.finished())) == (0, [])


def test_it_waits_for_nobody(tmp_path: Path) -> None:
    paths = made(tmp_path)
    with paths.lock.open("r+b") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with survey(paths) as seen:
            assert len(list(seen.finished())) == 11


def test_pieces_end_where_lines_end(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    line = b"x" * 999 + b"\n"
    path.write_bytes(line * 10_000 + b"torn")
    pieces = list(read_pieces(path, None))
    assert b"".join(pieces) == line * 10_000
    assert all(len(piece) <= PIECE_BYTES and piece.endswith(b"\n") for piece in pieces)
    assert len(pieces) > 1
    assert b"".join(read_pieces(path, 3_000)) == line * 3


@pytest.mark.parametrize("extra", [-1, 0, 1, 3 * PIECE_BYTES])
def test_a_line_longer_than_a_piece_is_read_whole(tmp_path: Path, extra: int) -> None:
    path = tmp_path / "lines"
    lines = [b"short\n", b"x" * (PIECE_BYTES + extra) + b"\n", b"y" * PIECE_BYTES + b"\n", b"short\n"]
    path.write_bytes(b"".join(lines) + b"z" * (PIECE_BYTES + extra))
    assert b"".join(read_pieces(path, None)) == b"".join(lines)
    assert b"".join(read_pieces(path, len(b"".join(lines[:2])))) == b"".join(lines[:2])


def test_marks_on_trials_are_read_without_a_torn_last_one(tmp_path: Path) -> None:
    paths = made(tmp_path)
    assert read_invalidations(paths) == ()
    mark(paths, "t0", 0, "leaked")
    with paths.invalidations.open("ab") as file:
        file.write(b'{"schema_ver')
    assert [row.reason for row in read_invalidations(paths)] == ["leaked"]
    paths.invalidations.write_bytes(b"nonsense\n")
    with pytest.raises(DamagedRun, match=r"invalidations\.jsonl"):
        read_invalidations(paths)
