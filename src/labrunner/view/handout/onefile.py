"""Writes a run as one web page that opens by a double click: the pages of `lab view`, and what they ask for.

Rules: nothing is fetched, and the page's own policy forbids it; only the page's own script runs. What a
sandbox wrote stands in the file as letters and digits, and becomes text when it is shown.
"""

import base64
import hashlib
from collections.abc import Iterator
from html import escape
from itertools import islice
from pathlib import Path
from typing import Final

import msgspec

from labrunner.errors import LabError
from labrunner.interop.exporter import Exporter
from labrunner.records.rows import SlotRows
from labrunner.runner.reports.lookup import RunInFull
from labrunner.store.reading.run_state import iter_finished
from labrunner.view.handout.cutting import TRIALS_A_PART, Cutter, pack
from labrunner.view.handout.scripts import join_scripts
from labrunner.view.left.beginning import beginnings
from labrunner.view.pagefiles import read_pages
from labrunner.view.seen.board import Board
from labrunner.view.seen.lookout import Lookout
from labrunner.view.seen.runsight import see_run
from labrunner.view.seen.screenful import group_errors
from labrunner.view.seen.slotfacts import ENDINGS, Figures
from labrunner.view.seen.timeline import tell_times
from labrunner.view.seen.versus import Contests

MOST_BASELINES: Final = 8


def write(seen: RunInFull, target: Path) -> tuple[Path, ...]:
    """Write the page, long texts cut."""
    return _write(seen, target, is_full=False)


def write_full(seen: RunInFull, target: Path) -> tuple[Path, ...]:
    """Write the page with every text whole."""
    return _write(seen, target, is_full=True)


def _write(seen: RunInFull, target: Path, *, is_full: bool) -> tuple[Path, ...]:
    with target.open("w", encoding="utf-8", newline="\n") as stream:
        stream.writelines(render(seen, is_full=is_full))
    return (target,)


FORMAT: Final = Exporter(ending=".html", write=write, write_full=write_full)


def render(seen: RunInFull, *, is_full: bool) -> Iterator[str]:
    """The page, piece by piece."""
    pages = read_pages()
    script, style = join_scripts(pages), pages["style.css"].decode()
    yield from _head(seen.record.name, script, style)
    board = Board.of(seen.paths)
    board.read()
    places: dict[int, int] = {}
    with beginnings(seen.paths) as began:
        cutter = Cutter.of(seen.paths, began, int(board.columns.has_row.sum()), is_full=is_full)
        for number, rows in enumerate(_batch(iter_finished(seen.paths))):
            places |= {each.schedule_idx: number for each in rows}
            yield _part(str(number), cutter.cut(rows))
    index = pack(_index(seen, board, places, is_full=is_full))
    yield _part(f'index" data-run="{escape(seen.paths.root.name)}', index)
    yield f"<script>{script}</script>\n</body></html>\n"


def _head(title: str, script: str, style: str) -> Iterator[str]:
    policy = "; ".join(
        (
            "default-src 'none'",
            f"script-src {_hash(script)}",
            f"style-src {_hash(style)}",
            "base-uri 'none'",
            "form-action 'none'",
            "require-trusted-types-for 'script'",
            "trusted-types 'none'",
        )
    )
    yield '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">\n'
    yield f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
    yield '<meta name="color-scheme" content="light dark"><meta name="referrer" content="no-referrer">\n'
    yield f"<title>{escape(title)}</title>\n<style>{style}</style></head><body>\n"
    yield '<div id="app"></div>\n<noscript>This page needs scripts: its own, nothing is loaded.</noscript>\n'


def _part(name: str, letters: str) -> str:
    return f'<script type="text/plain" id="part-{name}">{letters}</script>\n'


def _batch(rows: Iterator[SlotRows]) -> Iterator[list[SlotRows]]:
    """Rows of trials that go into one part."""
    while part := list(islice(rows, TRIALS_A_PART)):
        yield part


def _index(seen: RunInFull, board: Board, places: dict[int, int], *, is_full: bool) -> dict[str, object]:
    """What is asked of the run as a whole, answered."""
    return {
        "key": seen.paths.root.name,
        "is_full": is_full,
        "run": see_run(seen),
        "errors": {"groups": group_errors(board)},
        "times": tell_times(board),
        "compare": dict(_compare(seen, board)),
        "board": _plain_board(board, places),
    }


def _compare(seen: RunInFull, board: Board) -> Iterator[tuple[str, object]]:
    """The comparison of a run's variants, for each that may be the baseline."""
    if len(board.variants) < 2:
        return
    lookout, contests, name = Lookout(seen.paths.root.parent), Contests(), seen.paths.root.name
    for baseline in (None, *board.variants[:MOST_BASELINES]):
        try:
            yield baseline or "", contests.hold(lookout, [name], baseline)
        except LabError as error:
            yield baseline or "", {"problem": error.describe()}


def _plain_board(board: Board, places: dict[int, int]) -> dict[str, object]:
    columns = board.columns
    return {
        "tasks": board.tasks,
        "variants": board.variants,
        "replications": board.schedule.replications,
        "endings": ENDINGS,
        "trial_ids": [board.trial_id(board.slot(idx)) for idx in range(len(board.schedule))],
        "task": columns.task.tolist(),
        "variant": columns.variant.tolist(),
        "repl": columns.repl.tolist(),
        "has_row": columns.has_row.astype(int).tolist(),
        "outcome": columns.outcome.tolist(),
        "standing": columns.standing.tolist(),
        "attempts": columns.attempts.tolist(),
        "said": columns.said.tolist(),
        "sayings": [msgspec.to_builtins(each) for each in columns.sayings.texts],
        **{name: _plain(getattr(columns, name)) for name in ("value", "time_s", "tokens", "cost_usd")},
        "withdrawn": board.withdrawn,
        "part": [places.get(idx, -1) for idx in range(len(board.schedule))],
    }


def _plain(figures: Figures) -> list[float | None]:
    return [None if each != each else each for each in figures.tolist()]  # NaN is not itself


def _hash(text: str) -> str:
    """What the page's policy calls a piece of style or script that it trusts."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
