"""The part of a run's slots that fits a screen: chosen, sorted and cut here, by key.

Rule: an answer is never larger than what a screen asks for, however large the run.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from statistics import fmean, pvariance
from typing import Any, Final, TypeVar

from labrunner.errors import InputError
from labrunner.experiment.schedule import Slot
from labrunner.view.seen.board import Board, BoardRow

MOST_ROWS: Final = 200
MOST_GROUPS: Final = 50
Key = TypeVar("Key")
_Sortable = Any  # what can be compared with its like


@dataclass(frozen=True, slots=True, kw_only=True)
class TableAsked:
    """What a table asks for."""

    words: tuple[str, ...] = ()
    """All of them stand somewhere in a row."""
    ending: str | None = None
    variant: str | None = None
    cause: str | None = None
    text: str | None = None
    """What was said of an error, as groups tell it."""
    sort: str = "slot"
    is_descending: bool = False
    offset: int = 0
    limit: int = MOST_ROWS


def take_trials(board: Board, asked: TableAsked) -> dict[str, object]:
    """A page of trials, and how many there are."""
    found = board.remember(replace(asked, offset=0, limit=0), lambda: _order_trials(board, asked))
    page = found[asked.offset : asked.offset + min(asked.limit, MOST_ROWS)]
    return {
        "total": len(found),
        "planned": len(board.schedule),
        "offset": asked.offset,
        "rows": [plain_row(board, board.schedule.slot(idx)) for idx in page],
    }


def _order_trials(board: Board, asked: TableAsked) -> Sequence[int]:
    key = _find(TRIAL_KEYS, asked.sort)
    if asked == TableAsked(offset=asked.offset, limit=asked.limit):
        return range(len(board.schedule))
    found = [slot for slot in board.schedule if _fits(board, slot, asked)]
    if asked.sort != "slot" or asked.is_descending:
        found.sort(key=lambda slot: key(board, slot), reverse=asked.is_descending)
    return [slot.schedule_idx for slot in found]


def plain_row(board: Board, slot: Slot) -> dict[str, object]:
    """One slot as a table shows it."""
    row, live = board.rows.get(slot.schedule_idx), board.running.get(slot.schedule_idx)
    told: dict[str, object] = {
        "slot": slot.schedule_idx,
        "trial_id": board.trial_id(slot),
        "task": board.tasks[slot.task_idx],
        "variant": board.variants[slot.variant_idx],
        "repl": slot.repl_idx,
        "ending": board.ending(slot),
    }
    if live is not None:
        told |= {"phase": live.phase, "since": live.since, "attempts": live.attempt}
    if row is not None:
        told |= {
            "value": row.value,
            "cause": row.cause,
            "reason": row.reason,
            "text": row.text,
            "ended_by": row.ended_by,
            "flags": row.flags,
            "attempts": row.attempts,
            "time_s": row.time_s,
            "tokens": row.tokens,
            "cost_usd": row.cost_usd,
        }
    return told


def take_map(board: Board, *, sort: str, is_descending: bool, offset: int, limit: int) -> dict[str, object]:
    """A page of the map: tasks down, variants across, each cell its replications."""
    key = _find(TASK_KEYS, sort)
    order = board.remember(
        (sort, is_descending),
        lambda: sorted(range(len(board.tasks)), key=lambda task: key(board, task), reverse=is_descending),
    )
    page = order[offset : offset + min(limit, MOST_ROWS)]
    return {
        "total": len(order),
        "offset": offset,
        "variants": board.variants,
        "replications": board.schedule.replications,
        "tasks": [_plain_task(board, task) for task in page],
    }


def group_errors(board: Board) -> list[dict[str, object]]:
    """Errors by cause and what was said, the most frequent first, with when they came."""
    groups: dict[tuple[str | None, str | None, str | None], list[BoardRow]] = {}
    for row in board.rows.values():
        if row.ending == "error":
            groups.setdefault((row.cause, row.reason, row.text), []).append(row)
    ranked = sorted(groups.items(), key=lambda item: -len(item[1]))[:MOST_GROUPS]
    return [
        {
            "cause": cause,
            "reason": reason,
            "text": text,
            "count": len(rows),
            "first_at": min((row.ended_at for row in rows if row.ended_at), default=None),
            "last_at": max((row.ended_at for row in rows if row.ended_at), default=None),
            "trial_id": board.trial_id(board.schedule.slot(rows[0].idx)),
        }
        for (cause, reason, text), rows in ranked
    ]


def find_neighbours(board: Board, slot: Slot) -> dict[str, str | None]:
    """The trials beside one: in the schedule, of the same cell, of the other variants."""
    idx, schedule = slot.schedule_idx, board.schedule
    before = schedule.slot(idx - 1) if idx > 0 else None
    after = schedule.slot(idx + 1) if idx + 1 < len(schedule) else None
    return {
        "previous": board.trial_id(before) if before else None,
        "next": board.trial_id(after) if after else None,
        "replication": _other(board, slot.variant_idx, slot.task_idx, slot.repl_idx + 1, slot),
        "variant": _other(board, slot.variant_idx + 1, slot.task_idx, slot.repl_idx, slot),
    }


def _other(board: Board, variant: int, task: int, repl: int, than: Slot) -> str | None:
    schedule = board.schedule
    idx = schedule.index(variant % schedule.variants, task, repl % schedule.replications)
    return None if idx == than.schedule_idx else board.trial_id(schedule.slot(idx))


def _fits(board: Board, slot: Slot, asked: TableAsked) -> bool:
    row = board.rows.get(slot.schedule_idx)
    if asked.variant is not None and board.variants[slot.variant_idx] != asked.variant:
        return False
    if asked.cause is not None and (row is None or row.cause != asked.cause):
        return False
    if asked.text is not None and (row is None or row.text != asked.text):
        return False
    if asked.ending is not None and board.ending(slot) != asked.ending:
        return False
    return not asked.words or _has_words(board, slot, row, asked.words)


def _has_words(board: Board, slot: Slot, row: BoardRow | None, words: Sequence[str]) -> bool:
    said = [board.tasks[slot.task_idx], board.variants[slot.variant_idx], board.ending(slot)]
    if row is not None:
        said += [each for each in (row.cause, row.reason, row.text, row.ended_by, *row.flags) if each]
    text = "\n".join(said).lower()
    return all(word in text for word in words)


def _cells(board: Board, task: int) -> Iterator[list[tuple[int, BoardRow | None]]]:
    schedule = board.schedule
    for variant in range(schedule.variants):
        places = [schedule.index(variant, task, repl) for repl in range(schedule.replications)]
        yield [(idx, board.rows.get(idx)) for idx in places]


def _plain_task(board: Board, task: int) -> dict[str, object]:
    cells = list(_cells(board, task))
    return {
        "task": board.tasks[task],
        "cells": [[_mark(board, idx, row) for idx, row in cell] for cell in cells],
        "slots": [[idx for idx, _ in cell] for cell in cells],
    }


def _mark(board: Board, idx: int, row: BoardRow | None) -> float | str:
    """A replication in the map: how much of it passed, or the first letter of why there is no verdict."""
    if row is None:
        return "r" if idx in board.running else "o"
    if board.withdrawn and board.trial_id(board.schedule.slot(idx)) in board.withdrawn:
        return "w"
    return _strength(row) if row.ending in {"pass", "fail"} else row.ending[0]


def _strength(row: BoardRow) -> float:
    if row.ending == "pass":
        return 1.0
    return round(row.value, 3) if row.value is not None and 0 < row.value < 1 else 0.0


def _means(board: Board, task: int) -> list[float]:
    graded = (
        [_strength(row) for _, row in cell if row is not None and row.ending in {"pass", "fail"}]
        for cell in _cells(board, task)
    )
    return [fmean(cell) for cell in graded if cell]


def _rows(board: Board, task: int) -> list[BoardRow]:
    return [row for cell in _cells(board, task) for _, row in cell if row is not None]


def _spread(board: Board, task: int) -> float:
    means = _means(board, task)
    return max(means) - min(means) if means else -1.0


def _variance(board: Board, task: int) -> float:
    cells = [
        [_strength(row) for _, row in cell if row is not None and row.ending in {"pass", "fail"}]
        for cell in _cells(board, task)
    ]
    return fmean([pvariance(cell) for cell in cells if cell] or [-1.0])


TASK_KEYS: Final[dict[str, Callable[[Board, int], _Sortable]]] = {
    "order": lambda _, task: task,
    "name": lambda board, task: board.tasks[task],
    "mean": lambda board, task: fmean(_means(board, task) or [-1.0]),
    "difference": _spread,
    "variance": _variance,
    "errors": lambda board, task: sum(row.ending == "error" for row in _rows(board, task)),
    "cost": lambda board, task: sum(row.cost_usd or 0.0 for row in _rows(board, task)),
    "time": lambda board, task: sum(row.time_s for row in _rows(board, task)),
}


def _figure(name: str) -> Callable[[Board, Slot], _Sortable]:
    """By a figure of the row; slots without it come first."""

    def key(board: Board, slot: Slot) -> _Sortable:
        row = board.rows.get(slot.schedule_idx)
        found = None if row is None else getattr(row, name)
        return (found is not None, found if found is not None else 0.0)

    return key


TRIAL_KEYS: Final[dict[str, Callable[[Board, Slot], _Sortable]]] = {
    "slot": lambda _, slot: slot.schedule_idx,
    "task": lambda board, slot: board.tasks[slot.task_idx],
    "variant": lambda board, slot: board.variants[slot.variant_idx],
    "repl": lambda _, slot: slot.repl_idx,
    "ending": lambda board, slot: board.ending(slot),
    "value": _figure("value"),
    "attempts": _figure("attempts"),
    "time": _figure("time_s"),
    "tokens": _figure("tokens"),
    "cost": _figure("cost_usd"),
}


def _find(keys: dict[str, Key], name: str) -> Key:
    try:
        return keys[name]
    except KeyError:
        raise InputError("sort", f"there is no {name!r}; there are: {', '.join(keys)}") from None
