"""Which request it is, and whether it may be passed on.

Rules: what is not in the table is declined. Path and query of what is sent are made anew from what was
understood, and the body is written anew from the values that were judged: a second field of the same name
can't say something else.
"""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Final

import msgspec

from labrunner.gateway.dialects import anthropic, gemini, openai_chat, openai_responses
from labrunner.gateway.dialects.bounds import bound_input, find_excess
from labrunner.gateway.dialects.digging import JsonMap, dig_count, dig_text, is_true
from labrunner.gateway.dialects.speech import Ask, Declined, Dialect, Protocols, Purpose

_NAME: Final = r"(?P<model>[A-Za-z0-9][A-Za-z0-9._@+~-]*(?:[/:][A-Za-z0-9][A-Za-z0-9._@+~-]*)*)"
_QUERY: Final = frozenset({"alt", "beta", "limit", "after_id", "before_id", "after", "pageSize", "pageToken"})
_SEARCHES: Final = re.compile(r"-search-(preview|api)|deep-research")
"""Models that search the web by themselves."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Inbound:
    """A request as it came: its path below the model's name, its content not compressed."""

    method: str
    path: str
    query: tuple[tuple[str, str], ...] = ()
    body: bytes = b""
    is_upgrade: bool = False


@dataclass(frozen=True, slots=True)
class _Route:
    method: str
    pattern: re.Pattern[str]
    protocol: Protocols
    purpose: Purpose
    path: str
    """Made from the groups of the pattern."""


def _route(method: str, pattern: str, protocol: Protocols, purpose: Purpose, path: str) -> _Route:
    return _Route(method, re.compile(pattern), protocol, purpose, path)


_V1: Final = "(?:/v1)?"
_GEMINI: Final = rf"/(?P<version>v1beta|v1alpha|v1)/models/{_NAME}:"
_ROUTES: Final[Mapping[Dialect, tuple[_Route, ...]]] = {
    "openai": (
        _route("POST", f"{_V1}/chat/completions", "openai_chat", "generate", "/chat/completions"),
        _route("POST", f"{_V1}/responses", "openai_responses", "generate", "/responses"),
        _route(
            "POST",
            f"{_V1}/responses/input_tokens",
            "openai_responses",
            "count_tokens",
            "/responses/input_tokens",
        ),
        _route("POST", f"{_V1}/embeddings", "openai", "embeddings", "/embeddings"),
        _route("GET", f"{_V1}/models", "openai", "models", "/models"),
        _route("GET", f"{_V1}/models/{_NAME}", "openai", "models", "/models/{model}"),
    ),
    "anthropic": (
        _route("POST", f"{_V1}/messages", "anthropic", "generate", "/v1/messages"),
        _route(
            "POST", f"{_V1}/messages/count_tokens", "anthropic", "count_tokens", "/v1/messages/count_tokens"
        ),
        _route("GET", f"{_V1}/models", "anthropic", "models", "/v1/models"),
        _route("GET", f"{_V1}/models/{_NAME}", "anthropic", "models", "/v1/models/{model}"),
    ),
    "gemini": (
        _route(
            "POST",
            f"{_GEMINI}(?P<verb>generateContent|streamGenerateContent)",
            "gemini",
            "generate",
            "/{version}/models/{model}:{verb}",
        ),
        _route(
            "POST",
            f"{_GEMINI}(?P<verb>countTokens)",
            "gemini",
            "count_tokens",
            "/{version}/models/{model}:{verb}",
        ),
        _route(
            "POST",
            f"{_GEMINI}(?P<verb>embedContent|batchEmbedContents)",
            "gemini",
            "embeddings",
            "/{version}/models/{model}:{verb}",
        ),
        _route("GET", r"/(?P<version>v1beta|v1alpha|v1)/models", "gemini", "models", "/{version}/models"),
        _route(
            "GET",
            rf"/(?P<version>v1beta|v1alpha|v1)/models/{_NAME}",
            "gemini",
            "models",
            "/{version}/models/{model}",
        ),
    ),
}


def recognise(dialect: Dialect, request: Inbound, granted: Collection[str] = ()) -> Ask | Declined:
    """Read a request of a dialect: what is asked and what is sent for it, or why it is not passed on."""
    if request.is_upgrade:
        return Declined(
            status=426,
            kind="invalid_request_error",
            message="connections that are upgraded (websockets) are not passed on: use plain HTTP requests",
        )
    for route in _ROUTES[dialect]:
        if request.method == route.method and (match := route.pattern.fullmatch(request.path)):
            return _read(route, match.groupdict(), request, granted)
    known = ", ".join(f"{route.method} {route.path}" for route in _ROUTES[dialect])
    return Declined(
        status=404,
        kind="not_found_error",
        message=f"{request.method[:20]} {request.path[:200]} is not passed on; these are: {known}",
    )


def _read(
    route: _Route, names: dict[str, str | None], request: Inbound, granted: Collection[str]
) -> Ask | Declined:
    ask = Ask(
        protocol=route.protocol,
        purpose=route.purpose,
        path=route.path.format(**names),
        query=tuple((name, value) for name, value in request.query if name in _QUERY),
        model=names.get("model"),
        is_streaming=names.get("verb") == "streamGenerateContent",
    )
    if route.purpose == "models":
        return ask
    if excess := find_excess(request.body):
        return Declined(
            status=413, kind="invalid_request_error", message=f"the request's body can't be read: {excess}"
        )
    try:
        body = msgspec.json.decode(request.body)
        if not isinstance(body, dict):
            return _decline("the request's body is not a JSON object")
        ask = ask if route.protocol == "gemini" else _read_body(ask, body)
        return _decline(why) if (why := _find_unfit(ask, body, granted)) else _judge(ask, body, granted)
    except msgspec.DecodeError as error:
        return _decline(f"the request's body is not JSON: {error}")
    except RecursionError:
        return _decline("the request's body is nested too deeply")


def _read_body(ask: Ask, body: JsonMap) -> Ask:
    """What all but Gemini say in the body."""
    return replace(
        ask,
        model=dig_text(body, "model"),
        is_streaming=ask.purpose == "generate" and is_true(body, "stream"),
        tier=dig_text(body, "service_tier"),
    )


def _find_unfit(ask: Ask, body: JsonMap, granted: Collection[str]) -> str | None:
    """Why a request can't be passed on."""
    if not ask.model:
        return "the request names no model"
    if _SEARCHES.search(ask.model) and "web_search" not in granted:
        return f"{ask.model} searches the web by itself, which `server_tools` does not grant"
    kept = None
    if ask.protocol == "openai_responses":
        kept = openai_responses.find_kept_elsewhere(body)
    elif ask.protocol == "gemini":
        kept = gemini.find_kept_elsewhere(body)
    return kept and f"`{kept}` makes use of what is kept at the provider: send it with the request instead"


def _judge(ask: Ask, body: JsonMap, granted: Collection[str]) -> Ask:
    """Take out what must not be passed on, ask for usage, and bound what is left."""
    taken_out, most, hides, leans = _prepare(ask, body, granted)
    sent = msgspec.json.encode(body)
    is_free = ask.purpose == "count_tokens"
    return replace(
        ask,
        body=sent,
        taken_out=taken_out,
        hides_usage=hides,
        leans_on_past=leans,
        max_input=0 if is_free else bound_input(body, len(sent)),
        max_output=most if ask.purpose == "generate" else 0,
    )


def _prepare(
    ask: Ask, body: JsonMap, granted: Collection[str]
) -> tuple[tuple[str, ...], int | None, bool, bool]:
    match ask.protocol:
        case "openai_chat":
            taken = openai_chat.sift(body, granted)
            return taken, openai_chat.bound_output(body), openai_chat.ask_for_usage(body), False
        case "openai_responses":
            taken = openai_responses.sift(body, granted)
            leans = openai_responses.leans_on_past(body)
            return taken, dig_count(body, "max_output_tokens"), False, leans
        case "anthropic":
            return anthropic.sift(body, granted), dig_count(body, "max_tokens"), False, False
        case "gemini":
            # countTokens may hold a whole request in a field of its own.
            inner = body.get("generateContentRequest")
            taken = gemini.sift(inner if isinstance(inner, dict) else body, granted)
            return taken, gemini.bound_output(body), False, False
        case "openai":
            return (), 0, False, False


def _decline(message: str) -> Declined:
    return Declined(status=400, kind="invalid_request_error", message=message)
