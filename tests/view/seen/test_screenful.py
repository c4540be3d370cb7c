"""The part of a run that fits a screen."""

from pathlib import Path

import pytest

from labrunner.errors import InputError
from labrunner.experiment.schedule import Slot
from labrunner.records.cause import Cause
from labrunner.view.seen.board import Board
from labrunner.view.seen.screenful import (
    ERROR_STEPS,
    MOST_ROWS,
    TableAsked,
    find_neighbours,
    group_errors,
    take_map,
    take_trials,
)
from tests.kit.made_runs import Told, make_grid, write_run


def script(slot: Slot) -> Told | None:
    """Task t1 tells variants apart, t2 varies, t3 errors, the rest is alike; the last slot is owed."""
    match (slot.task_idx, slot.variant_idx, slot.repl_idx):
        case (1, variant, _):
            return Told(value=float(variant))
        case (2, _, repl):
            return Told(value=float(repl), usage={"cost_usd": 2.0, "tokens": 9})
        case (3, _, _):
            return Told(value=None, errors=(Cause.PROVIDER,))
        case (4, 1, 1):
            return None
        case _:
            return Told(value=0.5, passes=False)


@pytest.fixture
def board(tmp_path: Path) -> Board:
    paths = write_run(tmp_path, make_grid(tasks=5, replications=2), script)
    made = Board.of(paths)
    made.read()
    return made


def rows(board: Board, **asked: object) -> list[tuple[object, object, object]]:
    told = take_trials(board, TableAsked(**asked))  # type: ignore[arg-type]  # words of a question
    found = told["rows"]
    assert isinstance(found, list)
    return [(row["task"], row["variant"], row["repl"]) for row in found]


def test_trials_are_chosen_by_ending_variant_cause_and_words(board: Board) -> None:
    assert rows(board, ending="owed") == [("t4", "b", 1)]
    assert rows(board, words=("provider", "t3"), variant="a") == [("t3", "a", 0), ("t3", "a", 1)]
    assert rows(board, cause="provider") == rows(board, ending="error")
    assert rows(board, words=("nowhere",)) == []


def test_trials_are_sorted_and_paged_by_key(board: Board) -> None:
    dear = rows(board, sort="cost", is_descending=True, limit=4)
    assert {task for task, _, _ in dear} == {"t2"}
    assert rows(board, offset=2, limit=2) == rows(board)[2:4]
    assert rows(board, sort="task")[:2] != rows(board, sort="task", is_descending=True)[:2]
    with pytest.raises(InputError, match="there are: slot, task"):
        rows(board, sort="nothing")


def first_of_map(board: Board, sort: str) -> object:
    told = take_map(board, sort=sort, is_descending=True, offset=0, limit=1)["tasks"]
    assert isinstance(told, list)
    return told[0]["task"]


def test_the_map_puts_first_what_differs_varies_or_errs_most(board: Board) -> None:
    found = {sort: first_of_map(board, sort) for sort in ("difference", "variance", "errors", "cost")}
    assert found == {"difference": "t1", "variance": "t2", "errors": "t3", "cost": "t2"}


def test_a_cell_of_the_map_tells_each_replication(board: Board) -> None:
    told = take_map(board, sort="order", is_descending=False, offset=0, limit=10)["tasks"]
    assert isinstance(told, list)
    assert [task["cells"] for task in told] == [
        [[0.5, 0.5], [0.5, 0.5]],
        [[0.0, 0.0], [1.0, 1.0]],
        [[0.0, 1.0], [0.0, 1.0]],
        [["e", "e"], ["e", "e"]],
        [[0.5, 0.5], [0.5, "o"]],
    ]


def test_errors_are_grouped_with_when_they_came(board: Board) -> None:
    (group,) = group_errors(board)
    assert (group["cause"], group["count"], group["text"]) == ("provider", 4, "attempt … went wrong")
    assert str(group["first_at"]) < str(group["last_at"])
    counts = group["over_time"]
    assert isinstance(counts, list)
    assert (len(counts), sum(counts)) == (ERROR_STEPS, 4)
    assert sum(map(bool, counts)) > 1


def test_neighbours_are_those_of_the_schedule_of_the_cell_and_of_the_other_variant(board: Board) -> None:
    slot = board.slot(board.index(0, 2, 1))
    beside = find_neighbours(board, slot)
    found = {name: board.find(trial) for name, trial in beside.items() if trial is not None}
    assert {name: (s.variant_idx, s.task_idx, s.repl_idx) for name, s in found.items() if s} == {
        "previous": (1, 1, 1),
        "next": (1, 2, 1),
        "replication": (0, 2, 0),
        "variant": (1, 2, 1),
    }


def test_no_answer_is_larger_than_a_screen(tmp_path: Path) -> None:
    paths = write_run(tmp_path, make_grid(tasks=300), lambda _: Told())
    board = Board.of(paths)
    board.read()
    told = take_trials(board, TableAsked(limit=10**9))
    assert (told["total"], len(told["rows"])) == (600, MOST_ROWS)  # type: ignore[arg-type]  # a list
