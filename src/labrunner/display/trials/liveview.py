"""What `lab show` prints of what is under way: the trials of a run, one trial, and lines as they come.

Rule: whatever an agent wrote passes through `safetext`, always.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final

from rich.console import RenderableType
from rich.text import Text

from labrunner.display.text.console import indent, make_fields, make_hints, make_line, make_table, stack
from labrunner.display.text.quantities import format_count, format_duration
from labrunner.display.text.safetext import clip, sanitise, sanitise_line, take_tail
from labrunner.display.trials.conversation import PARTLY, Extent, LiveConversation
from labrunner.display.trials.trialview import TAIL_LINES, TRANSCRIPT, show_log
from labrunner.records.completion import Completion, Failed
from labrunner.runner.reports.unfinished import Unfinished
from labrunner.store.reading.underway import UnderWay

SHOWN: Final = 20
WORDS: Final[Mapping[str, str]] = {"waiting": "waiting to be tried again"}


def show_under_way(trials: Sequence[UnderWay], now: datetime) -> RenderableType | None:
    """Show the trials under way, those that began first on top; None when there are none."""
    if not trials:
        return None
    ordered = sorted(trials, key=lambda each: (each.began_at or "~", each.schedule_idx))
    are_placed = any(each.node is not None for each in trials)
    rows = [
        (
            each.trial_id,
            *((each.node or "",) if are_placed else ()),
            str(each.attempt),
            WORDS.get(each.phase, each.phase),
            _ago(each.since, now),
            _ago(each.began_at, now),
        )
        for each in ordered[:SHOWN]
    ]
    columns = (
        "under way",
        *(("node",) if are_placed else ()),
        "attempt",
        "phase",
        "in it for",
        "attempt took",
    )
    more = len(ordered) - SHOWN
    return stack(
        make_line(""),
        make_table(columns, rows, numbers=("attempt", "in it for", "attempt took")),
        make_line(f"and {format_count(more, 'more trial')}") if more > 0 else None,
        _show_nodes(trials) if are_placed else None,
    )


def _show_nodes(trials: Sequence[UnderWay]) -> RenderableType:
    """Say how many attempts each node has, those with most first; an attempt that waits has none."""
    counts = Counter(each.node for each in trials if each.node is not None and each.phase != "waiting")
    told = [f"{node}: {number}" for node, number in sorted(counts.items(), key=lambda at: (-at[1], at[0]))]
    more = f", and {format_count(len(told) - SHOWN, 'more node')}" if len(told) > SHOWN else ""
    return make_line(f"on {format_count(len(told), 'node')}: {', '.join(told[:SHOWN])}{more}", "dim")


def show_unfinished(
    seen: Unfinished,
    logs: Mapping[str, str],
    now: datetime,
    hints: Sequence[tuple[str, str]] = (),
    extent: Extent = PARTLY,
) -> RenderableType:
    """Show a trial without a result: how far it is, attempts before, the ends of its logs."""
    return stack(
        make_line(unfinished_line(seen, now), "bold"),
        *(_show_failure(each) for each in seen.failed),
        *(show_log(name, text, extent) for name, text in logs.items()),
        make_hints(hints),
    )


def unfinished_line(seen: Unfinished, now: datetime) -> str:
    """Say in one line how far a trial is."""
    if not seen.is_live or seen.phase is None:
        was = f"; it was at: {WORDS.get(seen.phase, seen.phase)}" if seen.phase else ""
        return f"{seen.trial_id}: not finished, and nobody carries it out now (attempt {seen.attempt}{was})"
    told = f"{seen.trial_id}: {WORDS.get(seen.phase, f'running, {seen.phase}')}"
    if seen.since is not None:
        told += f" for {_ago(seen.since, now)}"
    is_begun = seen.began_at is not None and seen.phase != "waiting"
    begun = f", begun {_ago(seen.began_at, now)} ago" if is_begun else ""
    where = f" on {seen.node}" if seen.node is not None else ""
    return f"{told} (attempt {seen.attempt}{where}{begun})"


def format_lines(name: str, text: str, talk: LiveConversation) -> str:
    """Lines of a log as they come, each behind the log's name; of a transcript, behind who said them."""
    if name == TRANSCRIPT:
        return "".join(_prefix(who, said) for who, said in talk.tell(text))
    return _prefix(name, text)


def _prefix(name: str, text: str) -> str:
    name = sanitise_line(name)
    lines = sanitise(text).rstrip("\n").split("\n")
    return "".join(f"{name}: {clip(line)}\n" for line in lines)


def _show_failure(completion: Completion) -> RenderableType:
    end = completion.end
    if not isinstance(end, Failed):
        return make_line(f"attempt {completion.attempt}")
    return stack(
        make_line(""),
        make_line(f"attempt {completion.attempt}: failed, cause {end.cause} ({end.reason})", "red"),
        indent(make_fields([("ended", completion.timing.ended_at)])),
        indent(Text(take_tail(end.message, TAIL_LINES))),
    )


def _ago(at: str | None, now: datetime) -> str:
    if at is None:
        return ""
    try:
        return format_duration((now - datetime.fromisoformat(at)).total_seconds())
    except ValueError:
        return ""
