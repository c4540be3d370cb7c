"""`lab show --follow`: what a live run or trial does, until it ends or somebody has seen enough.

Rules: only the run's files are looked at, a few times a second. Ctrl-C ends this command and nothing else.
"""

import asyncio
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from typing import Final

from labrunner.display.progress import Pace, Progress, Screen, follow
from labrunner.display.text.console import make_console
from labrunner.display.trials.conversation import LiveConversation
from labrunner.display.trials.liveview import format_lines, show_unfinished, unfinished_line
from labrunner.errors import InputError
from labrunner.files.strangers.masking import Masker
from labrunner.records.encoding import canonical
from labrunner.records.rows import SlotRows
from labrunner.records.run import Counts
from labrunner.runner.reports.lookup import read_standing
from labrunner.runner.reports.unfinished import Follower, Unfinished, find_any, find_live, read_ends
from labrunner.store.buffering.transcripts import TRANSCRIPT
from labrunner.store.layout import RunPaths
from labrunner.store.reading.run_state import read_state
from labrunner.store.reading.underway import read_under_way
from labrunner.store.rows.single_records import read_run
from labrunner.view.plain.underway_json import plain_under_way

LOOK_S: Final = 0.3


class _Over(Exception):
    """The run has ended."""


def follow_run(paths: RunPaths, *, as_json: bool) -> None:
    """Show a run's progress until nobody carries it out any more."""
    if as_json:
        _print_changes(paths)
    else:
        asyncio.run(_draw_progress(paths))


async def _draw_progress(paths: RunPaths) -> None:
    planned, watched_from = read_run(paths).planned, time.monotonic()
    before = read_standing(paths)
    began_s = (datetime.now(UTC) - datetime.fromisoformat(before.started_at)).total_seconds()
    pace = Pace(planned=planned, done_before=_done(before.counts))

    def look() -> Progress:
        counts, elapsed_s = read_standing(paths).counts, time.monotonic() - watched_from
        return Progress(
            planned=planned,
            committed=counts.committed,
            buffered=counts.buffered,
            running=counts.running,
            passed=counts.passed,
            failed=counts.failed,
            errors=counts.errors,
            elapsed_s=began_s + elapsed_s,
            eta_s=pace.estimate_left(done=_done(counts), elapsed_s=elapsed_s),
        )

    async def pause(seconds: float) -> None:
        await asyncio.sleep(seconds)
        if read_state(paths) != "started":
            raise _Over

    with suppress(_Over):
        await follow(look, Screen.of(sys.stdout), pause)


def _print_changes(paths: RunPaths) -> None:
    """A line of JSON whenever something has changed."""
    shown: dict[str, object] = {}
    while (state := read_state(paths)) == "started":
        told: dict[str, object] = {
            "state": state,
            "counts": read_standing(paths).counts,
            "under_way": [plain_under_way(each) for each in read_under_way(paths)],
        }
        if told != shown:
            _print(told)
            shown = told
        _pause()


def _done(counts: Counts) -> int:
    return counts.committed + counts.buffered


def follow_trial(
    paths: RunPaths, found: Unfinished, masker: Masker, *, as_json: bool
) -> SlotRows | Unfinished:
    """Show what a trial writes until it has a result, or nobody carries it out; then what became of it."""
    trial_id = found.trial_id
    follower = Follower(paths=paths, trial_id=trial_id, attempt=found.attempt, masker=found.mask(masker))
    follower.skip()
    ends = read_ends(paths, found, masker)
    talk = LiveConversation()
    talk.tell(ends.get(TRANSCRIPT, ""))
    if as_json:
        _print(plain_under_way(found) | {"new": list(ends.items())})
    else:
        make_console().print(show_unfinished(found, ends, datetime.now(UTC)))
    seen: Unfinished | None = found
    while read_state(paths) == "started":
        live = find_live(paths, trial_id)
        is_over = live is None or live.attempt != follower.attempt
        texts = list(follower.take(is_over=is_over))
        _tell(texts, seen, live, None if as_json else talk)
        if live is None and (rows := _find_result(paths, trial_id)):
            return rows
        if live is not None and is_over:
            follower = Follower(
                paths=paths, trial_id=trial_id, attempt=live.attempt, masker=live.mask(masker)
            )
            talk = LiveConversation()
        seen = live or seen
        _pause()
    return _find_result(paths, trial_id) or replace(seen or found, is_live=False)


def _find_result(paths: RunPaths, trial_id: str) -> SlotRows | None:
    with suppress(InputError):  # between two attempts nothing may be known of a trial
        found = find_any(paths, trial_id)
        return found if isinstance(found, SlotRows) else None
    return None


def _tell(
    texts: Sequence[tuple[str, str]],
    before: Unfinished | None,
    live: Unfinished | None,
    talk: LiveConversation | None,
) -> None:
    """Print what is new; for programs where there is no conversation to tell it in."""
    has_moved = (
        live is not None
        and before is not None
        and (live.phase, live.attempt)
        != (
            before.phase,
            before.attempt,
        )
    )
    if talk is None:
        if texts or has_moved:
            _print((plain_under_way(live) if live else {}) | {"new": texts})
    else:
        sys.stdout.writelines(format_lines(name, text, talk) for name, text in texts)
        if has_moved and live is not None:
            sys.stdout.write(f"{unfinished_line(live, datetime.now(UTC))}\n")
    sys.stdout.flush()


def _print(told: dict[str, object]) -> None:
    sys.stdout.write(canonical.encode_line(told).decode())
    sys.stdout.flush()


def _pause() -> None:
    threading.Event().wait(LOOK_S)
