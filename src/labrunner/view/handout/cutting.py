"""Trials of a run for one file: what each left, cut so far that the file stays small, in compressed parts.

Rules: what is cut says so, and what can't be read any more says so in its place. A part is cut no more than
its share of the file's size asks for, and what parts before it have left over is its own. A part is read by a
page when one of its trials is.
"""

import base64
import gzip
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from labrunner.errors import DamagedRun, InputError
from labrunner.records.rows import SlotRows
from labrunner.store.layout import RunPaths
from labrunner.view.left.beginning import Beginnings
from labrunner.view.left.conversing import read_conversation
from labrunner.view.left.keptfiles import list_kept, read_window
from labrunner.view.left.keptfolders import tell_changes
from labrunner.view.plain.safe_json import make_safe
from labrunner.view.seen.trialsight import tell_finished

TRIALS_A_PART: Final = 25
MOST_BYTES: Final = 10_000_000
"""Of all parts together, compressed; in a page they are a third larger."""
LEAST_SHARE: Final = 1_000
"""Bytes that a trial has in any case: a longer run makes a larger file."""
CAPS: Final = (64 * 1024, 16 * 1024, 4 * 1024, 1024, 200)
"""Characters of one text, tried in this order."""
ENTRIES_FOR_A_CAP: Final = 8
"""A conversation may be this many times as long as one text."""
WHOLE: Final = 2**62


@dataclass(slots=True, kw_only=True)
class Cutter:
    """Makes parts, each as little cut as its share allows."""

    paths: RunPaths
    began: Beginnings
    share: int | None
    """Bytes for a trial; None: nothing is cut."""
    spare: int = 0

    @classmethod
    def of(cls, paths: RunPaths, began: Beginnings, trials: int, *, is_full: bool) -> "Cutter":
        """For a run of so many trials, whose workspaces began so."""
        share = None if is_full else max(LEAST_SHARE, MOST_BYTES // max(1, trials))
        return cls(paths=paths, began=began, share=share)

    def cut(self, rows: Sequence[SlotRows]) -> str:
        """The part of some trials."""
        folders = {each.schedule_idx: self._tell_folders(each) for each in rows}
        if self.share is None:
            return pack(self._tell(rows, folders, WHOLE))
        room = self.share * len(rows) + self.spare
        tried = (pack(self._tell(rows, folders, cap)) for cap in CAPS)
        part = next(tried)
        for shorter in tried:
            if _size(part) <= room:
                break
            part = shorter
        self.spare = max(0, room - _size(part))
        return part

    def _tell(self, rows: Sequence[SlotRows], folders: Mapping[int, object], cap: int) -> dict[int, object]:
        return {
            each.schedule_idx: self._tell_trial(each, cap)
            | {"folders": _shorten(folders[each.schedule_idx], cap)}
            for each in rows
        }

    def _tell_trial(self, rows: SlotRows, cap: int) -> dict[str, object]:
        told = msgspec.to_builtins(tell_finished(self.paths, rows))
        del told["record_text"]  # the page writes it from the record
        return {
            **shorten(told, cap),
            "said": self._read_said(rows, cap) if told["has_conversation"] else [],
            "texts": dict(self._read_texts(rows, cap)),
        }

    def _read_texts(self, rows: SlotRows, cap: int) -> Iterator[tuple[str, object]]:
        for kept in list_kept(self.paths, rows):
            try:
                window = read_window(kept, None, cap)
            except InputError as error:
                window = {"problem": error.describe()}
            yield f"{kept.attempt} {kept.ref.digest}", window

    def _tell_folders(self, rows: SlotRows) -> object:
        try:
            return msgspec.to_builtins(tell_changes(self.paths, rows, rows.attempt, self.began))
        except InputError:  # it has no attempt of its own: it was taken over
            return []

    def _read_said(self, rows: SlotRows, cap: int) -> list[object]:
        logs = next(each.logs for each in rows.timing.attempts if each.attempt == rows.attempt)
        folder, entries = self.paths.attempt(rows.trial_id, rows.attempt), list[object]()
        room = ENTRIES_FOR_A_CAP * cap
        while True:
            try:
                page = read_conversation(folder, logs, len(entries))
            except DamagedRun as error:  # of this trial alone: the others are to be seen all the same
                return [{"kind": "error", "text": str(error)}]
            found = page["entries"]
            assert isinstance(found, list)
            for entry in found:
                short = shorten(entry, cap)
                room -= len(msgspec.json.encode(short))
                if room < 0:
                    return [*entries, {"kind": "cut", "text": "the rest is not in this file"}]
                entries.append(short)
            if not page["has_more"]:
                return entries


def _size(part: str) -> int:
    """Bytes of a part before they became letters."""
    return len(part) * 3 // 4


def shorten(value: object, cap: int) -> "dict[str, object]":
    """The same JSON with its long texts cut."""
    short = _shorten(value, cap)
    assert isinstance(short, dict)
    return short


def _shorten(value: object, cap: int) -> object:
    match value:
        case str() if len(value) > cap:
            return f"{value[:cap]}\n({len(value) - cap:,} more characters)"
        case dict():
            return {key: _shorten(each, cap) for key, each in value.items()}
        case list() | tuple():
            return [_shorten(each, cap) for each in value]
        case _:
            return value


def pack(told: object) -> str:
    """JSON whose texts are safe, compressed, in letters that stand in a page as they are."""
    data = msgspec.json.encode(make_safe(msgspec.to_builtins(told, str_keys=True)))
    return base64.b64encode(gzip.compress(data, 6, mtime=0)).decode()
