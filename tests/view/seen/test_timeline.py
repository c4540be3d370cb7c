"""When trials ended."""

from pathlib import Path

from labrunner.records.cause import Cause
from labrunner.records.facts.outage_note import OutageNote
from labrunner.store.rows.outages import put_outage
from labrunner.view.seen.board import Board
from labrunner.view.seen.timeline import STEPS, tell_times
from tests.kit.made_runs import Told, make_grid, write_run


def test_every_finished_trial_stands_in_the_step_in_which_it_ended(tmp_path: Path) -> None:
    ends = {
        0: Told(at_s=0.0),
        1: Told(at_s=50.0, value=0.0),
        2: Told(at_s=98.75, value=None, errors=(Cause.PROVIDER,)),
    }
    paths = write_run(tmp_path, make_grid(), lambda slot: ends.get(slot.schedule_idx))
    board = Board.of(paths)
    board.read()
    told = tell_times(board)
    steps = told["steps"]
    assert isinstance(steps, list)
    assert (told["began_at"], told["ended_at"]) == ("2026-01-01T00:00:00.000Z", "2026-01-01T00:01:40.000Z")
    assert (told["crashes"], told["adopted"]) == ([], [])
    assert {at: step for at, step in enumerate(steps) if any(step)} == {
        1: [1, 0, 0],
        61: [0, 1, 0],
        STEPS - 1: [0, 0, 1],
    }


def test_a_run_without_results_has_no_times(tmp_path: Path) -> None:
    paths = write_run(tmp_path, make_grid(), lambda _: None)
    board = Board.of(paths)
    board.read()
    assert tell_times(board) == {"steps": []}


def test_outages_lie_on_the_same_axis_and_make_it_longer(tmp_path: Path) -> None:
    ends = {0: Told(at_s=0.0, agent_s=10.0), 1: Told(at_s=90.0, agent_s=10.0)}
    paths = write_run(tmp_path, make_grid(), lambda slot: ends.get(slot.schedule_idx), status="error")
    for began, ended in (("00:00:20", "00:01:10"), ("00:01:40", "00:03:20")):
        put_outage(
            paths,
            OutageNote(
                cause=Cause.PROVIDER,
                began_at=f"2026-01-01T{began}.000Z",
                ended_at=f"2026-01-01T{ended}.000Z",
            ),
        )
    board = Board.of(paths)
    board.read()
    told = tell_times(board)
    assert told["ended_at"] == "2026-01-01T00:03:20.000Z"
    assert told["outages"] == [
        {"cause": "provider", "from": 0.1, "to": 0.35},
        {"cause": "provider", "from": 0.5, "to": 1.0},
    ]
