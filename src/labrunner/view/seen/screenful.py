"""The part of a run's slots that fits a screen: chosen, sorted and cut here, by key.

Rule: an answer is never larger than what a screen asks for, however large the run. `pages/held.js` answers
the same questions in the same way where there is no server; a test holds the two together.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Final, TypeVar

import numpy as np

from labrunner.errors import InputError
from labrunner.experiment.schedule import Slot
from labrunner.records.encoding.canonical import stamp
from labrunner.view.seen.board import Board, known
from labrunner.view.seen.slotfacts import ENDINGS, ERROR, FAIL, PASS, Counts, Figures, Saying, Truths

MOST_ROWS: Final = 200
ERROR_STEPS: Final = 24
MOST_GROUPS: Final = 50
Key = TypeVar("Key")


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
        "rows": [plain_row(board, board.slot(int(idx))) for idx in page],
    }


def _order_trials(board: Board, asked: TableAsked) -> Sequence[int] | Counts:
    key = _find(TRIAL_KEYS, asked.sort)
    if asked == TableAsked(offset=asked.offset, limit=asked.limit):
        return range(len(board.schedule))
    found = np.flatnonzero(_choose(board, asked)).astype(np.int32)
    return found[_order(key(board)[found], is_descending=asked.is_descending)]


def _order(keys: Figures, *, is_descending: bool) -> Counts:
    """Places by key, the smallest or the largest first; what is alike stays in its order."""
    order: Counts = np.argsort(-keys if is_descending else keys, kind="stable").astype(np.int32)
    return order


def plain_row(board: Board, slot: Slot) -> dict[str, object]:
    """One slot as a table shows it."""
    columns, idx = board.columns, slot.schedule_idx
    live = board.running.get(idx)
    told: dict[str, object] = {
        "slot": idx,
        "trial_id": board.trial_id(slot),
        "task": board.tasks[slot.task_idx],
        "variant": board.variants[slot.variant_idx],
        "repl": slot.repl_idx,
        "ending": board.ending(idx),
    }
    if live is not None:
        told |= {"phase": live.phase, "since": live.since, "attempts": live.attempt, "node": live.node}
    if columns.has_row[idx]:
        said = columns.sayings.texts[columns.said[idx]]
        told |= {
            "value": known(columns.value[idx]),
            "cause": said.cause,
            "reason": said.reason,
            "text": said.text,
            "ended_by": said.ended_by,
            "flags": said.flags,
            "attempts": int(columns.attempts[idx]),
            "time_s": known(columns.time_s[idx]),
            "tokens": known(columns.tokens[idx]),
            "cost_usd": known(columns.cost_usd[idx]),
        }
    return told


def take_map(board: Board, *, sort: str, is_descending: bool, offset: int, limit: int) -> dict[str, object]:
    """A page of the map: tasks down, variants across, each cell its replications."""
    key = _find(TASK_KEYS, sort)
    order = board.remember(
        ("map", sort, is_descending), lambda: _order(key(board), is_descending=is_descending)
    )
    strength = board.remember("strength", board.columns.strength)
    page = order[offset : offset + min(limit, MOST_ROWS)]
    return {
        "total": len(order),
        "offset": offset,
        "variants": board.variants,
        "replications": board.schedule.replications,
        "longest": board.remember("longest", lambda: max(map(len, board.tasks), default=0)),
        "tasks": [_plain_task(board, int(task), strength) for task in page],
    }


def _plain_task(board: Board, task: int, strength: Figures) -> dict[str, object]:
    columns, cells = board.columns, board.columns.grid[task]
    marks = [
        [float(strength[idx]) if columns.standing[idx] in _GRADED else board.ending(idx)[0] for idx in cell]
        for cell in cells
    ]
    return {"task": board.tasks[task], "cells": marks, "slots": cells.tolist()}


def group_errors(board: Board) -> list[dict[str, object]]:
    """Errors by cause and what was said, the most frequent first, with when they came."""
    columns = board.columns
    errors = np.flatnonzero(columns.outcome == ERROR)
    groups: dict[tuple[str | None, str | None, str | None], list[Counts]] = {}
    for said in np.unique(columns.said[errors]):
        text = columns.sayings.texts[said]
        slots = errors[columns.said[errors] == said].astype(np.int32)
        groups.setdefault((text.cause, text.reason, text.text), []).append(slots)
    joined = [(said, np.sort(np.concatenate(slots))) for said, slots in groups.items()]
    ranked = sorted(joined, key=lambda group: (-len(group[1]), int(group[1][0])))[:MOST_GROUPS]
    return [_plain_group(board, said, slots) for said, slots in ranked]


def _plain_group(
    board: Board, said: tuple[str | None, str | None, str | None], slots: Counts
) -> dict[str, object]:
    cause, reason, text = said
    ended = board.columns.ended[slots]
    times = ended[~np.isnan(ended)]
    return {
        "cause": cause,
        "reason": reason,
        "text": text,
        "count": len(slots),
        "first_at": write_time(float(times.min())) if times.size else None,
        "last_at": write_time(float(times.max())) if times.size else None,
        "trial_id": board.trial_id(board.slot(int(slots[0]))),
        "over_time": _count_over_time(board, times),
    }


def _count_over_time(board: Board, times: Figures) -> list[int]:
    """How many came in each step, from the beginning of the run's first trial to its last end."""
    columns = board.columns
    if not times.size:
        return []
    span = (float(np.nanmin(columns.began)), float(np.nanmax(columns.ended)))
    counts: list[int] = np.histogram(times, ERROR_STEPS, (span[0], max(span[1], span[0] + 0.001)))[0].tolist()
    return counts


def write_time(seconds: float) -> str:
    """A time of a column as records have it."""
    return stamp(datetime.fromtimestamp(seconds, UTC))


def find_neighbours(board: Board, slot: Slot) -> dict[str, str | None]:
    """The trials beside one: in the schedule, of the same cell, of the other variants."""
    idx = slot.schedule_idx
    return {
        "previous": board.trial_id(board.slot(idx - 1)) if idx > 0 else None,
        "next": board.trial_id(board.slot(idx + 1)) if idx + 1 < len(board.schedule) else None,
        "replication": _other(board, slot.variant_idx, slot.task_idx, slot.repl_idx + 1, slot),
        "variant": _other(board, slot.variant_idx + 1, slot.task_idx, slot.repl_idx, slot),
    }


def _other(board: Board, variant: int, task: int, repl: int, than: Slot) -> str | None:
    schedule = board.schedule
    idx = board.index(variant % schedule.variants, task, repl % schedule.replications)
    return None if idx == than.schedule_idx else board.trial_id(board.slot(idx))


def _choose(board: Board, asked: TableAsked) -> Truths:
    columns = board.columns
    chosen = np.ones(len(board.schedule), np.bool_)
    if asked.variant is not None:
        chosen &= _hold(board.variants, lambda name: name == asked.variant)[columns.variant]
    if asked.cause is not None:
        chosen &= _hold(columns.sayings.texts, lambda said: said.cause == asked.cause)[columns.said]
    if asked.text is not None:
        chosen &= _hold(columns.sayings.texts, lambda said: said.text == asked.text)[columns.said]
    if asked.ending is not None:
        chosen &= _hold(ENDINGS, lambda name: name == asked.ending)[columns.standing]
    for word in asked.words:
        chosen &= _hold_word(board, word)
    return chosen


def _hold_word(board: Board, word: str) -> Truths:
    """Whose task, variant, ending or error has a word in it."""
    columns = board.columns
    places = (
        ([name.lower() for name in board.tasks], columns.task),
        ([name.lower() for name in board.variants], columns.variant),
        (ENDINGS, columns.standing),
        ([_words(said) for said in columns.sayings.texts], columns.said),
    )
    found = np.zeros(len(board.schedule), np.bool_)
    for texts, column in places:
        found |= _hold(texts, lambda text: word in text)[column]
    return found


def _hold(texts: Sequence[Key], claim: Callable[[Key], bool]) -> Truths:
    """Of which texts a claim is true."""
    return np.fromiter((claim(text) for text in texts), np.bool_, len(texts))


def _words(said: Saying) -> str:
    given = (said.cause, said.reason, said.text, said.ended_by, *said.flags)
    return "\n".join(each for each in given if each).lower()


_GRADED: Final = (PASS, FAIL)


def _means(board: Board) -> tuple[Figures, Figures]:
    """The mean of each cell that has verdicts, and how far its replications lie apart; NaN for others."""
    columns = board.columns
    is_graded = np.isin(columns.standing, _GRADED)[columns.grid]
    strength = np.where(is_graded, columns.strength()[columns.grid], 0.0)
    with np.errstate(invalid="ignore", divide="ignore"):
        count = is_graded.sum(axis=2)
        mean = strength.sum(axis=2) / count
        apart = np.where(is_graded, strength - mean[:, :, None], 0.0)
        return mean, (apart**2).sum(axis=2) / count


def _across(cells: Figures, take: Callable[[Figures], Figures]) -> Figures:
    """A figure of each task's cells that have one; -1 for tasks without any."""
    found = np.full(len(cells), -1.0)
    some = ~np.isnan(cells).all(axis=1)
    found[some] = np.round(take(cells[some]), 12)  # what is alike but for the last bit is alike
    return found


def _rank(texts: Sequence[str]) -> Figures:
    """Places of texts in their order, those that are alike together."""
    places = {text: place for place, text in enumerate(sorted(set(texts)))}
    return np.fromiter((places[text] for text in texts), np.float64, len(texts))


def _total(figures: Figures, board: Board) -> Figures:
    found: Figures = np.nan_to_num(figures)[board.columns.grid].sum(axis=(1, 2))
    return found


def _spread(cells: Figures) -> Figures:
    found: Figures = np.nanmax(cells, axis=1) - np.nanmin(cells, axis=1)
    return found


def _middle(cells: Figures) -> Figures:
    found: Figures = np.nanmean(cells, axis=1)
    return found


TASK_KEYS: Final[dict[str, Callable[[Board], Figures]]] = {
    "order": lambda board: np.arange(len(board.tasks), dtype=np.float64),
    "name": lambda board: _rank(board.tasks),
    "mean": lambda board: _across(_means(board)[0], _middle),
    "difference": lambda board: _across(_means(board)[0], _spread),
    "variance": lambda board: _across(_means(board)[1], _middle),
    "errors": lambda board: _total((board.columns.outcome == ERROR).astype(np.float64), board),
    "cost": lambda board: np.round(_total(board.columns.cost_usd, board), 9),
    "time": lambda board: np.round(_total(board.columns.time_s, board), 9),
}


def _figure(name: str) -> Callable[[Board], Figures]:
    """By a figure of the row; slots without it come first."""

    def key(board: Board) -> Figures:
        figures: Figures = getattr(board.columns, name).astype(np.float64)
        return np.where(np.isnan(figures) | ~board.columns.has_row, -np.inf, figures)

    return key


TRIAL_KEYS: Final[dict[str, Callable[[Board], Figures]]] = {
    "slot": lambda board: np.arange(len(board.schedule), dtype=np.float64),
    "task": lambda board: _rank(board.tasks)[board.columns.task],
    "variant": lambda board: _rank(board.variants)[board.columns.variant],
    "repl": lambda board: board.columns.repl.astype(np.float64),
    "ending": lambda board: _rank(ENDINGS)[board.columns.standing],
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
