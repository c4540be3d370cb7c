"""In what a request is another one than the recorded one, in a few words for people. Pure.

Rule: only places that differ are named, each with both values cut short: requests hold whole conversations.
"""

from collections.abc import Iterator
from itertools import islice
from typing import Final

from labrunner.records.encoding import canonical

MOST: Final = 5
_SHOWN: Final = 80
_BEFORE: Final = 20
"""Characters of a long text that are shown before the place where two of them part."""
_ABSENT: Final = object()


def describe_difference(recorded: object, now: object) -> str:
    """Where two requests differ; empty where they do not."""
    found = list(islice(_walk("", recorded, now), MOST + 1))
    told = [f"{path or 'the body'}: recorded {before}, now {after}" for path, before, after in found[:MOST]]
    return "; ".join([*told, "and more"] if len(found) > MOST else told)


def _walk(path: str, recorded: object, now: object) -> Iterator[tuple[str, str, str]]:
    if isinstance(recorded, dict) and isinstance(now, dict):
        for name in sorted({*recorded, *now}):
            inner = f"{path}.{name}" if path else str(name)
            yield from _walk(inner, recorded.get(name, _ABSENT), now.get(name, _ABSENT))
    elif isinstance(recorded, list) and isinstance(now, list):
        for at in range(max(len(recorded), len(now))):
            before = recorded[at] if at < len(recorded) else _ABSENT
            after = now[at] if at < len(now) else _ABSENT
            yield from _walk(f"{path}[{at}]", before, after)
    elif recorded != now:
        yield (path, *_show_both(_spell(recorded), _spell(now)))


def _spell(value: object) -> str:
    return "nothing" if value is _ABSENT else canonical.encode(value).decode()


def _show_both(before: str, after: str) -> tuple[str, str]:
    """Both, around the first place where they part."""
    same = next((at for at, pair in enumerate(zip(before, after, strict=False)) if pair[0] != pair[1]), None)
    at = min(len(before), len(after)) if same is None else same
    return _cut(before, at), _cut(after, at)


def _cut(text: str, at: int) -> str:
    if len(text) <= _SHOWN:
        return text
    begin = max(0, min(at - _BEFORE, len(text) - _SHOWN))
    shown = text[begin : begin + _SHOWN]
    return ("…" if begin else "") + shown + ("…" if begin + _SHOWN < len(text) else "")
