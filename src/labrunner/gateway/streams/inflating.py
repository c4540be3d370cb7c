"""Compressed bodies, read as they come.

Rules: what is read is bounded, whatever it inflates to. Providers are only asked for what can be read
here, so that every answer can be metered; what comes in another form passes, and counts as not understood.
"""

import zlib
from typing import Final

READABLE: Final = ("gzip", "deflate", "identity")
MAX_INFLATED: Final = 256 << 20
_BITS: Final = {"gzip": 16 + zlib.MAX_WBITS, "x-gzip": 16 + zlib.MAX_WBITS, "deflate": zlib.MAX_WBITS}


class Unreadable(ValueError):
    """Bytes that are not what their header says, or more of them than anybody should read."""


class Inflater:
    """Turns the bytes of a body into its content. Raises Unreadable."""

    def __init__(self, encoding: str, *, most: int = MAX_INFLATED) -> None:
        """Take the value of `content-encoding`; empty for none."""
        word = encoding.strip().lower()
        if word not in {"", "identity", *_BITS}:
            raise Unreadable(f"content-encoding {word!r} can't be read here, only {', '.join(READABLE)}")
        self._state = zlib.decompressobj(_BITS[word]) if word in _BITS else None
        self._left = most

    def feed(self, piece: bytes) -> bytes:
        """Take in bytes; give what they hold."""
        if self._state is None:
            content = piece
        else:
            try:
                content = self._state.decompress(piece, self._left + 1)
            except zlib.error as error:
                raise Unreadable(f"the body is not compressed as its header says: {error}") from error
        self._left -= len(content)
        if self._left < 0:
            raise Unreadable("the body inflates to more than can be read")
        return content

    @property
    def is_whole(self) -> bool:
        """Whether what was fed ends where its compression says."""
        return self._state is None or self._state.eof


def inflate(body: bytes, encoding: str, *, most: int = MAX_INFLATED) -> bytes:
    """Inflate a whole body. Raises Unreadable."""
    inflater = Inflater(encoding, most=most)
    content = inflater.feed(body)
    if not inflater.is_whole:
        raise Unreadable("the compressed body ends too early")
    return content


def choose_encodings(asked: str | None, *, is_plain: bool) -> str:
    """What a provider may send, of what a client would take: only what can be read here."""
    given = [part.split(";")[0].strip().lower() for part in (asked or "").split(",")]
    kept = [] if is_plain else [word for word in given if word in {"gzip", "deflate"}]
    return ", ".join(kept) or "identity"
