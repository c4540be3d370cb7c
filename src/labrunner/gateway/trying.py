"""Real requests to a model's provider, before a run: is it there, does it take the key, does it generate?

Rules: models are listed, which costs nothing anywhere; then some are asked for a word or two, and what that
cost is told. Nothing is retried, and nobody is waited for long.
"""

import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import msgspec

from labrunner.experiment.model_script import read_script
from labrunner.gateway.dialects.digging import dig_maps, dig_text
from labrunner.gateway.dialects.hearing import Hearing
from labrunner.gateway.dialects.recognising import Inbound, recognise
from labrunner.gateway.dialects.speech import Declined, Dialect, Heard
from labrunner.gateway.process.control import ToldModel
from labrunner.gateway.process.daemon import make_entry, open_told
from labrunner.gateway.serving.headers import Headers, choose_for_provider, find
from labrunner.gateway.serving.providerlink import Sending, Unreachable, open_link
from labrunner.gateway.serving.upstream import LineBroken, Opened, describe_trouble

CONNECT_S: Final = 10.0
SILENCE_S: Final = 20.0
NAMED: Final = 3
"""Models that are named."""
_PATHS: Final[dict[Dialect, str]] = {
    "openai": "/models",
    "anthropic": "/v1/models",
    "gemini": "/v1beta/models",
}
_MOST: Final = 4 << 20
_WORDS: Final = "Say ok."
_LIMIT: Final = 16
"""Tokens of the answer."""
_LONGEST: Final = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class TriedModel:
    """What came of it."""

    is_well: bool
    told: str
    names: tuple[str, ...] = ()
    """Models that the provider listed."""


async def try_model(told: ToldModel, key_name: str | None) -> TriedModel:
    """Ask a provider for its models; a script is only read. The key's value is in nothing that is told."""
    if told.script is not None:
        count = len(read_script(Path(told.script)).answers)
        number = f"{count} answer" + ("s" if count != 1 else "")
        return TriedModel(is_well=True, told=f"{told.script} has {number}: nobody is asked")
    entry = make_entry(msgspec.structs.replace(told, max_retries=0), connect_s=CONNECT_S, silence_s=SILENCE_S)
    ask = recognise(told.dialect, Inbound(method="GET", path=_PATHS[told.dialect]))
    assert not isinstance(ask, Declined), "models can be listed in every dialect"
    started = time.monotonic()
    try:
        async with open_link(entry) as link:
            headers = _make_headers(told)
            async with link.send(ask, headers, Sending()) as opened:
                body = await _read(opened)
    except (Unreachable, LineBroken) as error:
        return TriedModel(is_well=False, told=f"{entry.base_url}: {describe_trouble(error)}")
    took = f"{(time.monotonic() - started) * 1000:.0f} ms"
    return _judge(opened.status, body, f"{entry.base_url} answered in {took}", key_name)


async def try_generating(told: ToldModel, model: str, key_name: str | None) -> TriedModel:
    """Ask a model for a word or two, and tell what that cost; a script is asked as the provider would be."""
    entry = make_entry(msgspec.structs.replace(told, max_retries=0), connect_s=CONNECT_S, silence_s=SILENCE_S)
    ask = recognise(told.dialect, _make_request(told, model))
    assert not isinstance(ask, Declined), "every dialect can be asked for a word"
    started = time.monotonic()
    try:
        async with (
            open_told(told, entry) as link,
            link.send(ask, _make_headers(told), Sending()) as opened,
        ):
            body = await _read(opened)
    except (Unreachable, LineBroken) as error:
        return TriedModel(is_well=False, told=f"{model}: {describe_trouble(error)}")
    hearing = Hearing(ask, content_type=find(opened.headers, "content-type"), encoding="")
    hearing.take(body)
    heard = hearing.tell(opened.status)
    if opened.status >= 400 or heard.complaint is not None:
        return _judge_refusal(told, model, opened.status, heard, key_name)
    took = f"{model} answered in {(time.monotonic() - started) * 1000:.0f} ms"
    if heard.tokens is None:
        return TriedModel(is_well=True, told=f"{took}, and did not say how many tokens that took")
    cost = entry.prices.price(model, heard.tokens, datetime.now(UTC), tier=heard.tier)
    used = f"{heard.tokens.input:,} tokens in, {heard.tokens.output:,} out"
    paid = "it has no price" if cost is None else f"which cost {cost.usd:.6f} USD"
    return TriedModel(is_well=True, told=f"{took}: {used}, {paid}")


def _make_request(told: ToldModel, model: str) -> Inbound:
    """A request for a word or two, by dialect."""
    said = [{"role": "user", "content": _WORDS}]
    match told.dialect:
        case "openai":
            # Its own newer models take only the one, most servers of others know only the other.
            limit = "max_completion_tokens" if told.base_url is None else "max_tokens"
            return _post("/chat/completions", {"model": model, "messages": said, limit: _LIMIT})
        case "anthropic":
            return _post("/v1/messages", {"model": model, "messages": said, "max_tokens": _LIMIT})
        case "gemini":
            contents = [{"role": "user", "parts": [{"text": _WORDS}]}]
            body = {"contents": contents, "generationConfig": {"maxOutputTokens": _LIMIT}}
            return _post(f"/v1beta/models/{model}:generateContent", body)


def _post(path: str, body: dict[str, Any]) -> Inbound:  # any JSON
    return Inbound(method="POST", path=path, body=msgspec.json.encode(body))


def _judge_refusal(
    told: ToldModel, model: str, status: int, heard: Heard, key_name: str | None
) -> TriedModel:
    why = heard.complaint.message[:_LONGEST] if heard.complaint else "without a word"
    if told.script is not None:
        return TriedModel(is_well=True, told=f"{model}: {told.script} has no answer for a plain greeting")
    if status in (401, 403):
        hint = f"the key in {key_name} may not use it" if key_name else "it wants a key"
        return TriedModel(is_well=False, told=f"{model} was refused ({status}): {hint}; it says: {why}")
    if status == 400:
        told_so = f"{model} did not take our greeting (400), which an agent's requests need not share: {why}"
        return TriedModel(is_well=True, told=told_so)
    return TriedModel(is_well=False, told=f"{model} did not answer ({status}): {why}")


def _make_headers(told: ToldModel) -> Headers:
    own = [("anthropic-version", "2023-06-01")] if told.dialect == "anthropic" else []
    return choose_for_provider([*own, ("accept", "application/json")], told.dialect, told.key, "identity")


async def _read(opened: Opened) -> bytes:
    body = bytearray()
    async for piece in opened.pieces():
        body += piece
        if len(body) > _MOST:
            break
    return bytes(body)


def _judge(status: int, body: bytes, answered: str, key_name: str | None) -> TriedModel:
    if status in (401, 403):
        told = f"it refused the key in {key_name} ({status})" if key_name else f"it wants a key ({status})"
        hint = "put the right one there" if key_name else "name the variable that holds one: `key`"
        return TriedModel(is_well=False, told=f"{answered}: {told}; {hint}")
    if status >= 500 or status == 429:
        return TriedModel(is_well=False, told=f"{answered}: with {status}, as if it were down or overloaded")
    if status >= 400:
        told = f"it lists no models ({status}): it is there, and whether it takes the key is not known"
        return TriedModel(is_well=True, told=f"{answered}: {told}")
    names = _find_names(body)
    if not names:
        return TriedModel(is_well=True, told=f"{answered}, and names no model")
    more = f", … ({len(names)} in all)" if len(names) > NAMED else ""
    told = f"{answered}: {', '.join(names[:NAMED])}{more}"
    return TriedModel(is_well=True, told=told, names=tuple(names))


def _find_names(body: bytes) -> list[str]:
    try:
        value = msgspec.json.decode(body)
    except msgspec.DecodeError:
        return []
    rows = [*dig_maps(value, "data"), *dig_maps(value, "models")]
    found = (dig_text(row, "id") or dig_text(row, "name") for row in rows)
    return [name.removeprefix("models/") for name in found if name]
