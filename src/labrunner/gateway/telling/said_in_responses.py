"""Messages of a request to OpenAI's responses: items, of which those of one answer belong together."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from labrunner.gateway.dialects.digging import dig_maps, dig_text
from labrunner.gateway.telling.pieces_of_speech import (
    Plain,
    make_answer,
    make_call,
    make_result,
    note,
    to_text,
    to_thought,
)
from labrunner.gateway.telling.said_in_chats import ROLES

_ARGUMENTS: Final = {"function_call": "arguments", "custom_tool_call": "input", "mcp_call": "arguments"}
_OUTPUT: Final = "_output"


def read_items(given: object) -> Iterator[Plain]:
    """The messages of `input`, which is a text or a list of items."""
    if isinstance(given, str):
        yield {"role": "user", "content": given}
        return
    answer = _Answer()
    for item in given if isinstance(given, list) else []:
        if isinstance(item, dict) and not answer.takes(item):
            yield from answer.end()
            yield from _read_other(item)
    yield from answer.end()


class _Answer:
    """Items of one answer: reasoning, words and calls, as they follow each other."""

    def __init__(self) -> None:
        self._texts: list[str] = []
        self._thoughts: list[str] = []
        self._calls: list[Plain] = []

    def takes(self, item: Mapping[str, Any]) -> bool:
        kind = item.get("type")
        if kind == "reasoning":
            parts = [*dig_maps(item, "summary"), *dig_maps(item, "content")]
            self._thoughts += [to_thought(part) for part in parts] or [to_thought(item)]
        elif kind in _ARGUMENTS:
            called = item.get("call_id") or item.get("id")
            self._calls.append(make_call(called, item.get("name"), item.get(_ARGUMENTS[kind])))
        elif kind in {"local_shell_call", "shell_call", "computer_call", "apply_patch_call"}:
            what = item.get("action") or item.get("operation")
            self._calls.append(make_call(item.get("call_id"), str(kind).removesuffix("_call"), what))
        elif item.get("role") == "assistant":
            self._texts.append(to_text(item.get("content"), between=""))
        else:
            return False
        return True

    def end(self) -> Iterator[Plain]:
        if self._texts or self._thoughts or self._calls:
            thoughts = "\n".join(filter(None, self._thoughts))
            yield make_answer("".join(self._texts), self._calls, reasoning=thoughts)
        self._texts, self._thoughts, self._calls = [], [], []


def _read_other(item: Mapping[str, Any]) -> Iterator[Plain]:
    kind, role = str(item.get("type") or ""), dig_text(item, "role")
    if kind.endswith(_OUTPUT):
        yield make_result(item.get("call_id"), item.get("output"))
    elif role in ROLES:
        yield {"role": ROLES[role], "content": to_text(item.get("content"))}
    elif kind != "item_reference" and kind:
        yield {"role": "user", "content": note(kind, item)}
