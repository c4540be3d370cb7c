"""One real request to a model's provider, before a run: is it there, and does it take the key?

Rule: models are listed, which costs nothing anywhere. Nothing is retried, and nobody is waited for long.
"""

import socket
import ssl
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import httpx
import msgspec

from labrunner.experiment.model_script import read_script
from labrunner.gateway.dialects.digging import dig_maps, dig_text
from labrunner.gateway.dialects.recognising import Inbound, recognise
from labrunner.gateway.dialects.speech import Declined, Dialect
from labrunner.gateway.process.control import ToldModel
from labrunner.gateway.process.daemon import make_entry
from labrunner.gateway.serving.headers import Headers, choose_for_provider
from labrunner.gateway.serving.providerlink import Opened, Sending, Unreachable, open_link

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


@dataclass(frozen=True, slots=True, kw_only=True)
class TriedModel:
    """What came of it."""

    is_well: bool
    told: str


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
    except (Unreachable, httpx.TransportError) as error:
        return TriedModel(is_well=False, told=f"{entry.base_url}: {describe_trouble(error)}")
    took = f"{(time.monotonic() - started) * 1000:.0f} ms"
    return _judge(opened.status, body, f"{entry.base_url} answered in {took}", key_name)


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
    return TriedModel(is_well=True, told=f"{answered}: {', '.join(names[:NAMED])}{more}")


def _find_names(body: bytes) -> list[str]:
    try:
        value = msgspec.json.decode(body)
    except msgspec.DecodeError:
        return []
    rows = [*dig_maps(value, "data"), *dig_maps(value, "models")]
    found = (dig_text(row, "id") or dig_text(row, "name") for row in rows)
    return [name.removeprefix("models/") for name in found if name]


def describe_trouble(error: BaseException) -> str:
    """Say in words why no answer came."""
    for each in _go_back(error):
        if isinstance(each, ssl.SSLCertVerificationError):
            told = each.verify_message or "it can't be verified"
            return f"its certificate is not trusted here ({told}); is SSL_CERT_FILE set where that is needed?"
        if isinstance(each, ssl.SSLError):
            return f"it speaks no TLS that we understand ({each.reason or each}); is it http:// perhaps?"
        if isinstance(each, socket.gaierror):
            return f"nobody knows this host ({each.strerror})"
        if isinstance(each, ConnectionRefusedError):
            return "nothing listens there; is the server started?"
        if isinstance(each, httpx.ConnectTimeout):
            return f"no connection within {CONNECT_S:g} s"
    return str(error)


def _go_back(error: BaseException | None) -> list[BaseException]:
    """An error, and what led to it."""
    found: list[BaseException] = []
    while error is not None and error not in found:
        found.append(error)
        error = error.__cause__ or error.__context__
    return found
