"""Our own refusals, in the form in which clients of a dialect expect errors."""

from collections.abc import Mapping
from typing import Final

import msgspec

from labrunner.gateway.dialects.speech import Declined, Dialect

_STATUS_WORDS: Final[Mapping[int, str]] = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    402: "FAILED_PRECONDITION",
    404: "NOT_FOUND",
    502: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}


def write_error(dialect: Dialect, declined: Declined) -> bytes:
    """The body of an error."""
    message = f"lab gateway: {declined.message}"
    match dialect:
        case "openai":
            told: object = {"message": message, "type": declined.kind, "param": None, "code": declined.kind}
            return msgspec.json.encode({"error": told})
        case "anthropic":
            told = {"type": declined.kind, "message": message}
            return msgspec.json.encode({"type": "error", "error": told})
        case "gemini":
            word = _STATUS_WORDS.get(declined.status, "UNKNOWN")
            told = {"code": declined.status, "message": message, "status": word}
            return msgspec.json.encode({"error": told})
