"""Which headers pass, in either direction.

Rules: to a provider go only headers that are known to mean something to it; the key, the encoding and what
belongs to a single connection are always set anew. To a client comes all but what belongs to a connection
or to a browser.
"""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Final

from labrunner.gateway.dialects.speech import Dialect

Headers = Sequence[tuple[str, str]]
"""Names in lower case, in order."""

_TO_PROVIDER: Final = frozenset(
    {"accept", "accept-language", "content-type", "user-agent", "openai-beta", "originator", "session_id"}
    | {"idempotency-key", "x-app", "x-client-request-id", "x-goog-api-client", "http-referer", "x-title"}
)
_TO_PROVIDER_STARTS: Final = ("anthropic-", "x-stainless-")
_OF_CONNECTION: Final = frozenset(
    {"connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "proxy-connection", "te"}
    | {"trailer", "transfer-encoding", "upgrade"}
)
_OF_BROWSERS: Final = frozenset({"set-cookie", "alt-svc", "strict-transport-security", "location"})
_KEYS: Final = ("authorization", "x-api-key", "x-goog-api-key", "api-key")


def find(headers: Headers, name: str) -> str:
    """The first value of a header; empty where there is none."""
    return next((value for key, value in headers if key == name), "")


def find_tokens(headers: Headers, query: Iterable[tuple[str, str]]) -> list[str]:
    """All that a client gave as its key."""
    given = [value for name, value in headers if name in _KEYS]
    words = [value[7:] if value[:7].lower() == "bearer " else value for value in given]
    return [word.strip() for word in words] + [value for name, value in query if name == "key"]


def choose_for_provider(headers: Headers, dialect: Dialect, key: str | None, encodings: str) -> Headers:
    """Headers of the request that is sent."""
    kept = [
        (name, value)
        for name, value in headers
        if name in _TO_PROVIDER or name.startswith(_TO_PROVIDER_STARTS)
    ]
    return [*kept, ("accept-encoding", encodings), *_authorise(dialect, key)]


def _authorise(dialect: Dialect, key: str | None) -> Headers:
    if key is None:
        return []
    match dialect:
        case "openai":
            return [("authorization", f"Bearer {key}")]
        case "anthropic":
            return [("x-api-key", key)]
        case "gemini":
            return [("x-goog-api-key", key)]


def choose_for_client(headers: Headers, *, is_rewritten: bool) -> Headers:
    """Headers of an answer; one whose bytes were changed has another length and is not compressed."""
    dropped = _OF_BROWSERS | ({"content-length", "content-encoding"} if is_rewritten else set())
    return [(name, value) for name, value in drop_hops(headers) if name not in dropped]


def drop_hops(headers: Headers) -> Headers:
    """All but what belongs to a single connection."""
    named = {
        word.strip().lower() for name, value in headers if name == "connection" for word in value.split(",")
    }
    return [(name, value) for name, value in headers if name not in _OF_CONNECTION | named]


def read_retry_after(headers: Headers, now: datetime) -> float | None:
    """Seconds that a provider asks to wait; None where it says nothing that can be understood."""
    if (wait := _read_number(find(headers, "retry-after-ms"))) is not None:
        return wait / 1000
    text = find(headers, "retry-after")
    if not text or (wait := _read_number(text)) is not None:
        return wait if text else None
    try:
        moment = parsedate_to_datetime(text)
    except ValueError:
        return None
    return max(0.0, (moment.replace(tzinfo=moment.tzinfo or UTC) - now).total_seconds())


def _read_number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if 0 <= number < 1e9 else None
