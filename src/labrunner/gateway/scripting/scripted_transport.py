"""A script where a provider would be: takes requests as they would be sent, and gives answers like theirs.

Rule: the way to a provider (`serving/providerlink.py`) does not know the difference: connections are counted,
failures tried again and answers metered and recorded alike. Nothing is sent anywhere.
"""

import asyncio
from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from typing import Final

import msgspec

from labrunner.experiment.model_script import Prompter, Script, read_script
from labrunner.gateway.dialects.digging import JsonMap, dig_text, is_true
from labrunner.gateway.dialects.speech import Ask, Declined, Dialect, Protocols
from labrunner.gateway.scripting.cue import read_cue
from labrunner.gateway.scripting.openai_costume import (
    make_completion,
    make_response,
    stream_completion,
    stream_response,
)
from labrunner.gateway.scripting.other_costumes import (
    make_contents,
    make_message,
    stream_contents,
    stream_message,
)
from labrunner.gateway.scripting.performance import ScriptMiss, SpokenLine, estimate, find_line
from labrunner.gateway.serving.errorshape import write_error
from labrunner.gateway.serving.headers import Headers
from labrunner.gateway.serving.upstream import Opened

_JSON: Final = "application/json"
_EVENTS: Final = "text/event-stream"


class ScriptedTransport:
    """Answers one dialect's requests from a script."""

    def __init__(self, dialect: Dialect, script: Script) -> None:
        """Answer by this script."""
        self._dialect: Dialect = dialect
        self._script = script
        self._prompter = Prompter(script)

    async def send(self, ask: Ask, headers: Headers) -> Opened:
        """Answer a request."""
        del headers
        raw, path = ask.body, ask.path
        if ask.purpose == "models":
            return _whole(200, _list_models(self._dialect, self._script, path))
        body: JsonMap = msgspec.json.decode(raw)
        if path.endswith(("count_tokens", "input_tokens", ":countTokens")):
            return _whole(200, {_COUNTS[self._dialect]: estimate(len(raw))})
        if "mbed" in path.rsplit("/", 1)[-1]:
            return self._refuse(
                Declined(status=404, kind="not_found_error", message="a script embeds nothing")
            )
        protocol = _find_protocol(self._dialect, path)
        model = path.rsplit("/", 1)[-1].partition(":")[0] if protocol == "gemini" else dig_text(body, "model")
        found = find_line(self._prompter, read_cue(protocol, model or "", body), len(raw))
        await asyncio.sleep(found.wait_s)
        if isinstance(found, ScriptMiss):
            return self._refuse(found.told, found.retry_after_s)
        is_streaming = is_true(body, "stream") or path.endswith(":streamGenerateContent")
        if not is_streaming:
            return _whole(200, _MAKERS[protocol](found))
        is_list = protocol == "gemini" and ("alt", "sse") not in ask.query
        pieces = _stream(protocol, found, body, is_sse=not is_list)
        return _respond(200, pieces, _JSON if is_list else _EVENTS)

    def _refuse(self, told: Declined, retry_after_s: float | None = None) -> Opened:
        wait = [] if retry_after_s is None else [("retry-after", f"{retry_after_s:g}")]
        return _respond(told.status, [write_error(self._dialect, told)], more=wait)


def open_script(dialect: Dialect, path: Path) -> ScriptedTransport:
    """Read a script, to answer by it. Raises InputError, InputErrors."""
    return ScriptedTransport(dialect, read_script(path))


_COUNTS: Final = {"openai": "input_tokens", "anthropic": "input_tokens", "gemini": "totalTokens"}
_MAKERS: Final = {
    "openai_chat": make_completion,
    "openai_responses": make_response,
    "anthropic": make_message,
    "gemini": make_contents,
}


def _find_protocol(dialect: Dialect, path: str) -> Protocols:
    if dialect == "openai":
        return "openai_responses" if path.endswith("/responses") else "openai_chat"
    return dialect


def _stream(protocol: Protocols, line: SpokenLine, body: JsonMap, *, is_sse: bool) -> Iterable[bytes]:
    match protocol:
        case "openai_responses":
            return stream_response(line)
        case "anthropic":
            return stream_message(line)
        case "gemini":
            return stream_contents(line, is_sse=is_sse)
        case _:
            return stream_completion(line, with_usage=is_true(body, "stream_options", "include_usage"))


async def _pass(pieces: Iterable[bytes]) -> AsyncIterator[bytes]:
    for piece in pieces:
        yield piece


def _whole(status: int, value: object) -> Opened:
    return _respond(status, [msgspec.json.encode(value)])


def _respond(status: int, pieces: Iterable[bytes], kind: str = _JSON, more: Headers = ()) -> Opened:
    return Opened(status=status, headers=[("content-type", kind), *more], rest=_pass(pieces))


def _list_models(dialect: Dialect, script: Script, path: str) -> object:
    names = sorted({each.model for each in script.answers if each.model}) or ["script"]
    last = path.rsplit("/", 1)[-1]
    if dialect == "gemini":
        models: list[object] = [{"name": f"models/{name}"} for name in names]
        return {"models": models} if last == "models" else {"name": f"models/{last}"}
    rows = [
        {"id": name, "object": "model", "type": "model", "created": 0, "owned_by": "script"} for name in names
    ]
    if last == "models":
        return {"object": "list", "data": rows, "has_more": False}
    return {"id": last, "object": "model", "type": "model", "created": 0, "owned_by": "script"}
