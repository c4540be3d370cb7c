"""What people read of an attempt's door to hosts: what was reached, and what was refused."""

from collections.abc import Sequence
from typing import Final

from rich.console import RenderableType

from labrunner.display.text.console import indent, make_line, make_table, stack
from labrunner.display.text.quantities import format_count, format_size
from labrunner.display.text.safetext import clip, sanitise_line
from labrunner.records.facts.door_event import DoorEvent

SHOWN: Final = 20
_ORDER: Final = {"refused": 0, "failed": 1, "closed": 2}
_WORDS: Final = {"closed": "reached"}


def show_hosts(events: Sequence[DoorEvent]) -> RenderableType | None:
    """Show hosts that phases asked for, the refused ones first; None where none was."""
    sums: dict[tuple[str, ...], list[int]] = {}
    for event in events:
        where = "-" if event.host is None else f"{event.host}:{event.port}" if event.port else event.host
        key = (event.end, clip(sanitise_line(where)), event.phase, event.reason or "")
        times, sent, received = sums.get(key, [0, 0, 0])
        sums[key] = [times + event.times, sent + event.sent, received + event.received]
    if not sums:
        return None
    ordered = sorted(sums, key=lambda key: (_ORDER.get(key[0], 0), -sums[key][0], key))
    rows = [
        (_WORDS.get(end, end), where, phase, reason, f"{times:,}", format_size(sent), format_size(received))
        for (end, where, phase, reason), (times, sent, received) in ((k, sums[k]) for k in ordered[:SHOWN])
    ]
    columns = ("door", "host", "phase", "why", "times", "sent", "received")
    more = len(ordered) - SHOWN
    rest = f"and {format_count(more, 'more host')}; see: lab query RUN 'from doors'"
    return stack(
        make_line(""),
        make_line("hosts asked for:", "dim"),
        indent(make_table(columns, rows, numbers=("times", "sent", "received"))),
        indent(make_line(rest)) if more > 0 else None,
    )
