"""Looking for a phrase in what was said in a run: conversations, terminals, answers of all finished trials.

Rules: trials are looked through in the order of the schedule, from where the last question ended, until a
screenful is found or a moment has passed: a question is short, however long the run. Nothing is kept but the
answers that hold the phrase. Of a trial its last attempt counts.
"""

import os
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np

from labrunner.errors import DamagedRun, InputError, LabError
from labrunner.files.strangers.hostile import open_below
from labrunner.gateway.recording.calljournal import BODIES
from labrunner.store.buffering.transcripts import TRANSCRIPT
from labrunner.store.reading.events import LOGGED
from labrunner.store.reading.survey import read_pieces, survey
from labrunner.view.left.ansi import strip_styles
from labrunner.view.left.conversing import read_conversation
from labrunner.view.left.phrase import Phrase, Quotation
from labrunner.view.seen.board import Board
from labrunner.view.seen.screenful import plain_row
from labrunner.view.seen.slotfacts import Counts

MOST_FOUND: Final = 20
LONGEST_LOOK_S: Final = 0.4
LEAST_LETTERS: Final = 2
MOST_BYTES: Final = 16 * 2**20
"""Of one file; what lies behind is not looked through."""
MOST_ENTRIES: Final = 5_000
SPOKEN: Final = frozenset({TRANSCRIPT, LOGGED, BODIES})
"""Files that hold what was said, one way or another."""


class _Predicted(msgspec.Struct):
    value: Any = None  # any JSON: the grader's own


class _AnswerRow(msgspec.Struct):
    schedule_idx: int
    prediction: _Predicted


class _WaitingAnswers(msgspec.Struct):
    predictions: tuple[_AnswerRow, ...]


_answers: Final = msgspec.json.Decoder(_AnswerRow)
_waiting: Final = msgspec.json.Decoder(_WaitingAnswers)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sought:
    """What is to be looked through: as the board had it, so that it can be let go meanwhile."""

    board: Board
    slots: Counts
    left: Counts
    last: Counts
    answers: Mapping[int, Quotation]
    finished: int

    @classmethod
    def of(cls, board: Board, phrase: Phrase, first: int) -> "Sought":
        """All finished slots from one on."""
        if len(phrase.text) < LEAST_LETTERS:
            raise InputError("q", f"needs at least {LEAST_LETTERS} letters")
        finished = np.flatnonzero(board.columns.has_row)
        slots = finished[finished >= first].astype(np.int32)
        return cls(
            board=board,
            slots=slots,
            left=board.columns.left[slots],
            last=board.columns.last[slots],
            answers=board.remember(("answers", phrase), lambda: dict(_find_answers(board, phrase))),
            finished=len(finished),
        )


def look_through(sought: Sought, phrase: Phrase) -> dict[str, object]:
    """The next trials that hold the phrase, and where to go on."""
    until, looked = time.monotonic() + LONGEST_LOOK_S, 0
    hits: list[dict[str, object]] = []
    board = sought.board
    for idx, left, last in zip(
        sought.slots.tolist(), sought.left.tolist(), sought.last.tolist(), strict=True
    ):
        if len(hits) >= MOST_FOUND or (looked and time.monotonic() > until):
            return _tell(sought, hits, looked, idx)
        looked += 1
        slot = board.slot(idx)
        folder = board.paths.attempt(board.trial_id(slot), last)
        found = [*_find_in(folder, board.columns.leavings.texts[left], phrase)]
        if (answer := sought.answers.get(idx)) is not None:
            found.append(answer)
        if found:
            hits.append({**plain_row(board, slot), "passages": found})
    return _tell(sought, hits, looked, None)


def _tell(
    sought: Sought, hits: list[dict[str, object]], looked: int, following: int | None
) -> dict[str, object]:
    return {"hits": hits, "looked": looked, "next": following, "finished": sought.finished}


def _find_in(folder: Path, paths: tuple[str, ...], phrase: Phrase) -> Iterator[Quotation]:
    """The first place in the conversation of an attempt, and the first in each of its logs."""
    if any(phrase.may_be_in(_read(folder, path)) for path in paths if path in SPOKEN):
        said = (phrase.quote(text, "conversation") for text in _read_texts(folder))
        yield from list(filter(None, said))[:1]
    for path in paths:
        if path.startswith("logs/") and phrase.may_be_in(data := strip_styles(_read(folder, path))):
            found = phrase.quote(data.decode(errors="replace"), "terminal", path)
            if found is not None:
                yield found


def _read(folder: Path, path: str) -> bytes:
    try:
        with open_below(folder, path) as file:
            # Asked for more than there is, a reader makes room for all of it first.
            return file.read(min(MOST_BYTES, os.fstat(file.fileno()).st_size))
    except OSError:
        return b""  # gone, or something else in its place: its page says so


def _read_texts(folder: Path) -> Iterator[str]:
    offset = 0
    while offset < MOST_ENTRIES:
        try:
            page = read_conversation(folder, None, offset)
        except LabError:
            return  # its page says so
        entries = page["entries"]
        assert isinstance(entries, list)
        for entry in entries:
            calls = [f"{call['function']} {call['arguments']}" for call in entry.get("calls") or ()]
            yield "\n".join(str(text) for text in (entry.get("text"), entry.get("trouble"), *calls) if text)
        offset += len(entries)
        if not page["has_more"]:
            return


def _find_answers(board: Board, phrase: Phrase) -> Iterator[tuple[int, Quotation]]:
    paths = board.paths
    with survey(paths) as seen:
        for piece in read_pieces(paths.predictions, seen.ends.predictions):
            if phrase.may_be_in(piece):
                lines = [line for line in piece[:-1].split(b"\n") if phrase.may_be_in(line)]
                yield from _quote_answers(map(_decode_answer, lines), phrase)
        for kept in seen.waiting:
            if phrase.may_be_in(kept.payload):
                yield from _quote_answers(iter(_waiting.decode(kept.payload).predictions), phrase)


def _quote_answers(rows: Iterator[_AnswerRow], phrase: Phrase) -> Iterator[tuple[int, Quotation]]:
    for row in rows:
        value = row.prediction.value
        text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
        if (found := phrase.quote(text, "answer")) is not None:
            yield row.schedule_idx, found


def _decode_answer(line: bytes) -> _AnswerRow:
    try:
        return _answers.decode(line)
    except (ValueError, RecursionError) as error:
        raise DamagedRun(f"reading a prediction: {error}; try: lab verify") from error
