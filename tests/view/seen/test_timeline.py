"""When trials ended."""

from pathlib import Path

from labrunner.records.cause import Cause
from labrunner.records.facts.outage_note import OutageNote
from labrunner.store.reading.underway import LivePhase, UnderWay
from labrunner.store.rows.outages import put_outage
from labrunner.view.seen.board import Board
from labrunner.view.seen.timeline import STEPS, NodeDeeds, tell_times
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
    assert tell_times(board) == {"steps": [], "nodes": []}


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


def test_each_node_is_told_with_what_it_did_and_has_under_way(tmp_path: Path) -> None:
    by_slot = {
        0: Told(at_s=0.0, agent_s=1.0, node="gpu-1/aa"),
        1: Told(at_s=5.0, agent_s=3.0, node="gpu-1/aa", value=None, errors=(Cause.PROVIDER,)),
        2: Told(at_s=9.0, agent_s=2.0, node="gpu-2/bb"),
        3: Told(at_s=9.0),
    }
    paths = write_run(tmp_path, make_grid(tasks=4), lambda slot: by_slot.get(slot.schedule_idx))
    board = Board.of(paths)
    board.read()
    board.running = {
        idx: _live(idx, node) for idx, node in ((5, "gpu-2/bb"), (6, "gpu-2/bb"), (7, "gpu-3/cc"))
    }
    board.running[4] = _live(4, "gpu-3/cc", "waiting")
    assert tell_times(board)["nodes"] == [
        NodeDeeds(node="gpu-2/bb", running=2, ended=1, time_s=2.25, last_at="2026-01-01T00:00:11.250Z"),
        NodeDeeds(node="gpu-3/cc", running=1),
        NodeDeeds(
            node="gpu-1/aa", running=0, ended=2, errors=1, time_s=2.25, last_at="2026-01-01T00:00:08.250Z"
        ),
    ]


def _live(idx: int, node: str, phase: LivePhase = "at its node") -> UnderWay:
    return UnderWay(
        schedule_idx=idx, trial_id=f"t{idx}", attempt=1, phase=phase, since=None, began_at=None, node=node
    )
