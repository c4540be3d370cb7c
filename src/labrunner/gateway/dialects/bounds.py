"""How many tokens a request can have at most, and how many parts it may have.

Rules: no tokeniser makes more tokens than its text has bytes, and what a provider wraps around a message
is less than the JSON around it. Pictures are billed by their area, not by their bytes: each counts as much
as the dearest known model takes for one, and no more than its bytes. Documents count twice their bytes:
text and pictures of pages. What is refused for its parts is found out from its bytes, before anybody takes it
apart: a few megabytes of empty lists would hold up all other attempts for minutes.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

PICTURE: Final = 50_000
"""Tokens of one picture, at most."""
HIDDEN_PROMPT: Final = 2_000
"""Tokens of what providers put before a conversation: how to call tools, how to think."""
UNKNOWN_OUTPUT: Final = 131_072
"""Tokens of an answer whose length neither the request nor the model's entry limits."""

MAX_PARTS: Final = 50_000
"""Objects and lists of a request: a conversation of a thousand turns with two hundred tools has a third."""
MAX_VALUES: Final = 1_000_000


def find_excess(body: bytes) -> str | None:
    """Why a body has too many parts to be read; None for one that may be. It need not be JSON."""
    bare = body.replace(b"\\\\", b"").replace(b'\\"', b"")
    if bare.count(b'"') > 2 * MAX_VALUES:
        return f"it has more than {MAX_VALUES} texts"
    outside = b"".join(bare.split(b'"')[::2])
    if outside.count(b"[") + outside.count(b"{") > MAX_PARTS:
        return f"it has more than {MAX_PARTS} objects and lists"
    return f"it has more than {MAX_VALUES} values" if outside.count(b",") > MAX_VALUES else None


def bound_input(body: object, size: int) -> int:
    """Tokens that a request of `size` bytes can have."""
    media = list(_find_media(body))
    return size + HIDDEN_PROMPT + sum(_count(kind, length) - length for kind, length in media)


def _count(kind: str, length: int) -> int:
    if kind.startswith("image/"):
        return min(length, PICTURE)
    return 2 * length if kind == "application/pdf" else length


def _find_media(value: object) -> Iterator[tuple[str, int]]:
    """Media types and lengths of what is held inline, at any depth."""
    waiting = [value]
    while waiting:
        match waiting.pop():
            case str(text) if text.startswith("data:"):
                yield text[5:60].partition(";")[0].lower(), len(text)
            case {"data": str(data), **rest} if kind := _media_type(rest):
                yield kind, len(data)
            case dict() as each:
                waiting.extend(each.values())
            case list() as each:
                waiting.extend(each)
            case _:
                pass


def _media_type(each: Mapping[Any, object]) -> str:  # keys of a matched map have no type
    for name in ("media_type", "mimeType", "mime_type"):
        if isinstance(kind := each.get(name), str):
            return kind.lower()
    return ""
