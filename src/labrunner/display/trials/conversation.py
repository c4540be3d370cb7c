"""A transcript as people read it: who said what, tools, calls with what they used, trouble, the score.

Rules: it is the same for any agent, be it a Python task's or one whose calls went through the gateway. Lines
that are no event of ours are left out, since a file read from its end begins in the middle of one; every text
passes through `safetext`. Conversations that were begun out of others stand where they began, further in.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from rich.console import RenderableType

from labrunner.display.text.console import make_line, stack
from labrunner.display.text.fitting import draw_fields
from labrunner.display.text.quantities import format_count, format_seconds, format_usd
from labrunner.display.text.safetext import sanitise, sanitise_line

SHOWN_FIRST: Final = 5
SHOWN_LAST: Final = 20
"""Entries from the beginning and from the end."""
LONGEST: Final = 600
"""Characters of one entry."""

_LONGEST_RANGE: Final = 1_000_000

_Event = Mapping[str, Any]  # foreign JSON: fields are asked for, never relied on
_Entry = tuple[str, str]
"""Who, and what was said."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Extent:
    """How much of a conversation is shown."""

    is_whole: bool = False
    for_all: str | None = None
    """What to type for all of it."""


PARTLY: Final = Extent()


def show_conversation(transcript: str, extent: Extent = PARTLY) -> RenderableType | None:
    """Show a transcript, its middle left out unless it is wanted whole; None where nothing is for people."""
    told = _ThreadedEntries()
    for event in _read_events(transcript):
        told.add(event)
    entries = list(told.entries())
    if not entries:
        return None
    left_out = 0 if extent.is_whole else max(0, len(entries) - SHOWN_FIRST - SHOWN_LAST)
    if not left_out:
        return stack(_draw(entries, extent), told.totals.show())
    more = f"; all of it: {extent.for_all}" if extent.for_all else ""
    return stack(
        _draw(entries[:SHOWN_FIRST], extent),
        make_line(f"({format_count(left_out, 'entry', 'entries')} left out here{more})", "dim"),
        _draw(entries[-SHOWN_LAST:], extent),
        told.totals.show(),
    )


def _draw(entries: Sequence[_Entry], extent: Extent) -> RenderableType:
    return draw_fields([_fit(entry, is_whole=extent.is_whole) for entry in entries])


class LiveConversation:
    """Tells entries as they come, for who follows."""

    def __init__(self) -> None:
        """Begin before the first event."""
        self._repeats = _Repeats()

    def tell(self, transcript: str) -> list[_Entry]:
        """Entries of events that came since; of conversations after the first, with their number."""
        told = []
        for event in _read_events(transcript):
            thread = event.get("thread")
            before = f"[{thread + 1}] " if isinstance(thread, int) and thread else ""
            told += [(before + who, said) for who, said in self._repeats.tell(event)]
        return told


def _read_events(transcript: str) -> Iterator[_Event]:
    for line in transcript.split("\n"):  # messages may hold other line separators as they are
        try:
            event = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(event, dict):
            yield event


@dataclass(slots=True)
class _Totals:
    """What all calls together used."""

    calls: int = 0
    failed: int = 0
    tokens: dict[str, int] = field(default_factory=lambda: {"input_tokens": 0, "output_tokens": 0})
    cost_usd: float = 0.0
    unpriced: int = 0
    replayed: int = 0

    def add(self, event: _Event) -> None:
        usage = _as_map(event.get("usage"))
        self.calls += 1
        self.failed += bool(event.get("error"))
        self.replayed += bool(event.get("replayed"))
        for name in self.tokens:
            self.tokens[name] += int(_as_number(usage.get(name)) or 0)
        cost = _as_number(usage.get("cost_usd"))
        self.cost_usd += 0.0 if event.get("replayed") else cost or 0.0
        self.unpriced += bool(usage) and cost is None

    def show(self) -> RenderableType | None:
        if not any(self.tokens.values()):
            return None
        told = [format_count(self.calls, "call")]
        told += [f"{self.failed} of them without an answer"] if self.failed else []
        told += [f"{self.replayed} of them replayed, and free"] if self.replayed else []
        told.append(f"{self.tokens['input_tokens']:,} tokens in, {self.tokens['output_tokens']:,} out")
        if self.unpriced + self.replayed < self.calls - self.failed:
            told.append(format_usd(self.cost_usd))
        if self.unpriced:
            told.append(f"{format_count(self.unpriced, 'call')} without a price")
        return make_line(f"in all: {', '.join(told)}", "dim")


class _Repeats:
    """Tells events; a message stands in a transcript once, and is told wherever it was said."""

    def __init__(self) -> None:
        self._known: dict[object, _Event] = {}
        self._fresh: set[object] = set()
        """Messages that were told as they came, and that no call has named yet."""
        self._spoken: list[int] = []
        self._outputs: dict[object, object] = {}
        """The last answer of each conversation."""

    def tell(self, event: _Event) -> Iterator[_Entry]:
        match event.get("event"):
            case "message":
                self._known[_as_key(event.get("id"))] = event
                self._fresh.add(_as_key(event.get("id")))
            case "model":
                yield from self._tell_again(event)
            case _:
                pass
        yield from _tell(event)

    def _tell_again(self, event: _Event) -> Iterator[_Entry]:
        """What was said before, and is said once more since the conversation's last answer."""
        after, thread, output = event.get("after"), _as_key(event.get("thread")), event.get("output")
        self._spoken[after if isinstance(after, int) else 0 :] = _expand(event.get("input"))
        last = self._outputs.get(thread)
        since = len(self._spoken)
        while last is not None and since > 0 and self._spoken[since - 1] != last:
            since -= 1
        said: list[object] = list(self._spoken[since:]) if since and last is not None else []
        for number in [*said, *([] if output is None else [output])]:
            if _as_key(number) not in self._fresh and (known := self._known.get(_as_key(number))):
                yield from _tell(known)
        self._fresh.clear()
        self._outputs[thread] = output
        self._spoken += [output] if isinstance(output, int) else []


def _expand(ranges: object) -> list[int]:
    pairs = [each for each in ranges if isinstance(each, list)] if isinstance(ranges, list) else []
    whole = [(first, last) for first, last in (each for each in pairs if len(each) == 2)]
    return [
        number
        for first, last in whole
        if isinstance(first, int) and isinstance(last, int) and last - first < _LONGEST_RANGE
        for number in range(first, last + 1)
    ]


def _as_key(value: object) -> object:
    """What may stand in a map: foreign JSON may be a list."""
    return value if isinstance(value, int | str) else None


class _ThreadedEntries:
    """Entries, conversation by conversation."""

    def __init__(self) -> None:
        self.totals = _Totals()
        self._repeats = _Repeats()
        self._items: dict[int, list[_Entry | int]] = {}
        """By conversation: its entries, and the numbers of those that were begun out of it."""
        self._begun: dict[int, int | None] = {}
        """Each conversation's parent."""
        self._waiting: list[_Entry] = []
        """Of a conversation of which no call has told yet out of which it was begun."""

    def add(self, event: _Event) -> None:
        thread = event.get("thread") if isinstance(event.get("thread"), int) else 0
        if event.get("event") == "model":
            self.totals.add(event)
            self._begin(thread or 0, event.get("parent"))
            self._items[thread or 0] += self._waiting
            self._waiting = []
        elif "thread" in event and thread not in self._begun:
            self._waiting += self._repeats.tell(event)
            return
        self._items.setdefault(thread or 0, []).extend(self._repeats.tell(event))

    def _begin(self, thread: int, parent: object) -> None:
        if thread in self._begun:
            return
        self._begun[thread] = parent if isinstance(parent, int) and parent in self._begun else None
        self._items.setdefault(thread, [])
        if (known := self._begun[thread]) is not None:
            self._items[known].append(thread)

    def entries(self) -> Iterator[_Entry]:
        self._items.setdefault(0, []).extend(self._waiting)
        roots = [thread for thread in self._items if self._begun.get(thread) is None]
        for at, thread in enumerate(roots):
            yield from self._tell_thread(thread, 0, is_named=at > 0)

    def _tell_thread(self, thread: int, depth: int, *, is_named: bool) -> Iterator[_Entry]:
        """Deeper ones are not told further in: nobody could read them."""
        inwards = "  " * min(depth, 4)
        if is_named:
            parent = self._begun.get(thread)
            out_of = "" if parent is None else f", begun out of {parent + 1}"
            yield f"{inwards}conversation", f"{thread + 1}{out_of}:"
        for item in self._items[thread]:
            if isinstance(item, int):
                yield from self._tell_thread(item, depth + 1, is_named=True)
            else:
                yield f"{inwards}{item[0]}", item[1]


def _tell(event: _Event) -> Iterator[_Entry]:
    match event.get("event"):
        case "message":
            yield from _tell_message(_as_map(event.get("message")))
        case "model":
            yield from _tell_call(event)
        case "retry":
            yield "retry", f"{event.get('message')}; waited {_as_number(event.get('wait_s')) or 0:.1f} s"
        case "limit":
            yield "limit", str(event.get("message"))
        case "error":
            yield "error", f"{event.get('cause')}: {event.get('message')}"
        case "score":
            yield "score", _tell_score(event)
        case _:
            pass  # for programs: what it says stands in messages too


def _tell_call(event: _Event) -> Iterator[_Entry]:
    """What a call used, where that is known, and what went wrong with it."""
    if taken := event.get("taken_out"):
        yield "taken out", ", ".join(map(str, taken if isinstance(taken, list) else [taken]))
    if trouble := _as_map(event.get("error")):
        words = [trouble.get("status"), trouble.get("kind"), trouble.get("end")]
        yield "call failed", f"{' '.join(str(word) for word in words if word)}: {trouble.get('message')}"
    usage = _as_map(event.get("usage"))
    if not _as_number(usage.get("total_tokens")):
        return
    cost = _as_number(usage.get("cost_usd"))
    told = [
        str(event.get("model")),
        _tell_part(usage, "input_tokens", "tokens in", input_tokens_cache_read="from the cache"),
        _tell_part(usage, "output_tokens", "out", reasoning_tokens="reasoning"),
        "no price" if cost is None else format_usd(cost),
        format_seconds(_as_number(event.get("seconds")) or 0.0),
    ]
    basis = usage.get("basis")
    word = "replayed" if event.get("replayed") else "call"
    yield word, ", ".join(told) + (f" ({basis}, not reported)" if basis else "")


def _tell_part(usage: _Event, name: str, noun: str, **parts: str) -> str:
    told = [f"{count:,.0f} {word}" for part, word in parts.items() if (count := _as_number(usage.get(part)))]
    inner = f" ({', '.join(told)})" if told else ""
    return f"{_as_number(usage.get(name)) or 0:,.0f} {noun}{inner}"


def _tell_message(message: _Event) -> Iterator[_Entry]:
    role = str(message.get("role"))
    name = message.get("function") if role == "tool" else None
    who = f"{role} {name}" if name else role
    calls = message.get("tool_calls")
    listed = [_as_map(call) for call in calls] if isinstance(calls, list) else []
    trouble, reasoning = message.get("error"), message.get("reasoning")
    if reasoning:
        yield f"{who} thinks", _to_text(reasoning)
    if message.get("content") or not (listed or trouble or reasoning):
        yield who, _to_text(message.get("content") or "")
    if trouble:
        yield f"{who} error", _tell_trouble(trouble)
    for call in listed:
        given = _as_map(call.get("arguments"))
        told = ", ".join(f"{key}={_to_text(value)!r}" for key, value in given.items())
        yield f"{who} calls", f"{call.get('function')}({told})"


def _tell_trouble(trouble: object) -> str:
    if not isinstance(trouble, dict):
        return _to_text(trouble)
    return f"{trouble.get('type')}: {_to_text(trouble.get('message'))}"


def _tell_score(event: _Event) -> str:
    told = f"{event.get('scorer')} = {_to_text(event.get('value'))}"
    why = event.get("explanation") or event.get("answer")
    return f"{told}: {_to_text(why)}" if why else told


def _to_text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _as_map(value: object) -> _Event:
    return value if isinstance(value, dict) else {}


def _as_number(value: object) -> float | None:
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def _fit(entry: _Entry, *, is_whole: bool) -> _Entry:
    """One entry made safe: the beginning and the end of what was said, or all of it."""
    safe = sanitise(entry[1]).rstrip("\n")
    if len(safe) > LONGEST and not is_whole:
        half = LONGEST // 2
        safe = f"{safe[:half]} (… {len(safe) - LONGEST} more characters …) {safe[-half:]}"
    return sanitise_line(entry[0]), safe
