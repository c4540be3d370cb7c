"""Every slot of a run in memory."""

from pathlib import Path

from labrunner.experiment.schedule import Slot
from labrunner.store.reading.survey import survey
from labrunner.view.seen.board import Board, normalise
from tests.kit.made_runs import Told, make_grid, write_run


def read(folder: Path, run_id: str, script: dict[int, Told]) -> Board:
    def told(slot: Slot) -> Told | None:
        return script.get(slot.schedule_idx)

    paths = write_run(folder, make_grid(tasks=3), told, run_id=run_id)
    board = Board.of(paths)
    board.read()
    return board


def test_committed_and_buffered_slots_are_there_and_the_rest_is_owed(tmp_path: Path) -> None:
    board = read(tmp_path, "x", {0: Told(), 1: Told(value=0.0), 4: Told()})
    assert [board.ending(idx) for idx in range(6)] == [
        "pass", "fail", "owed", "owed", "pass", "owed",
    ]  # fmt: skip
    with survey(board.paths) as seen:
        assert seen.committed == 2


def test_what_a_run_adds_is_read_and_what_was_committed_is_not_read_again(tmp_path: Path) -> None:
    board = read(tmp_path / "a", "x", {0: Told()})
    longer = read(tmp_path / "b", "x", {number: Told(value=float(number)) for number in range(3)})
    for name in ("trials", "timings", "scores", "predictions", "commits", "status", "run"):
        getattr(board.paths, name).write_bytes(getattr(longer.paths, name).read_bytes())
    board.read()
    # The longer run's first trial has another value: what was known of it was not asked for again.
    assert board.columns.value[:3].tolist() == [1.0, 1.0, 2.0]
    assert board.committed == 3


def test_a_run_that_became_shorter_is_read_anew(tmp_path: Path) -> None:
    board = read(tmp_path / "a", "x", {number: Told() for number in range(4)})
    shorter = read(tmp_path / "b", "x", {0: Told(value=0.0)})
    for name in ("trials", "timings", "scores", "predictions", "commits", "status", "run"):
        getattr(board.paths, name).write_bytes(getattr(shorter.paths, name).read_bytes())
    board.paths.summary.unlink(missing_ok=True)
    board.read()
    assert [board.ending(idx) for idx in range(6)] == ["fail", *["owed"] * 5]


def test_errors_that_are_alike_are_told_alike() -> None:
    one = "container 4f3a2b1c9d8e7f60 on port 32768: /tmp/x/y/z.py: refused\nmore"
    other = "container 00112233445566aa on port 40001: /var/lib/q/z.py: refused"
    assert normalise(one) == normalise(other) == "container … on port …: …/z.py: refused"
