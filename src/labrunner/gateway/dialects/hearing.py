"""Listening to an answer while its bytes pass.

Rules: the client gets the bytes as they came, in the pieces in which they came, but for a chunk that it
did not ask for. Whatever can't be understood passes all the same, and is told as not understood. Before an
event of a stream passes, it is known whether the client may see it, and whether it is the last one; what
it says is taken in when there is time.
"""

from dataclasses import replace
from typing import Final

import msgspec

from labrunner.gateway.dialects.anthropic import MessagesListener
from labrunner.gateway.dialects.gemini import GeminiListener
from labrunner.gateway.dialects.openai_chat import DONE, ChatListener, is_usage_chunk
from labrunner.gateway.dialects.openai_responses import ResponsesListener
from labrunner.gateway.dialects.speech import Ask, Complaint, Heard, Listener, Protocols
from labrunner.gateway.streams.eventstream import EventStream, StreamEvent
from labrunner.gateway.streams.inflating import Inflater, Unreadable
from labrunner.gateway.streams.jsonvalues import JsonValues

MAX_KEPT: Final = 64 << 20
"""Bytes of an answer that are kept for its record."""
_LONGEST: Final = 300


def listen_to(protocol: Protocols) -> Listener:
    """A listener that knows a protocol."""
    match protocol:
        case "openai_chat" | "openai":
            return ChatListener()
        case "openai_responses":
            return ResponsesListener()
        case "anthropic":
            return MessagesListener()
        case "gemini":
            return GeminiListener()


class Hearing:
    """One answer, from its first byte to its last."""

    def __init__(self, ask: Ask, *, content_type: str, encoding: str) -> None:
        """Take what was asked, and the headers of the answer that say how to read it."""
        self._listener = listen_to(ask.protocol)
        self._events = EventStream() if "event-stream" in content_type.lower() else None
        self._values = JsonValues()
        self._kept = bytearray()
        self._unheard: list[object] = []
        self.is_over = False
        """Whether a stream said that it is over."""
        self.trouble: str | None = None
        """Why the answer could not be understood."""
        try:
            self._inflater: Inflater | None = Inflater(encoding)
        except Unreadable as error:
            self._inflater, self.trouble = None, str(error)
        self.hides = ask.hides_usage and self._events is not None and self._inflater is not None
        """Whether a chunk is kept from the client. What it gets is then not compressed."""

    @property
    def content(self) -> bytes:
        """What the answer held, as far as it was read, not compressed."""
        return bytes(self._kept)

    @property
    def size(self) -> int:
        """Bytes of it."""
        return len(self._kept)

    @property
    def is_stream(self) -> bool:
        """Whether events come."""
        return self._events is not None

    def take(self, piece: bytes) -> bytes:
        """Take in bytes of the answer; give what the client gets for them."""
        content = self._inflate(piece)
        if len(self._kept) + len(content) <= MAX_KEPT:
            self._kept += content
        if self._events is None:
            self._unheard += map(self._decode, self._values.feed(content))
            return piece
        passed = [event.raw for event in self._events.feed(content) if not self._look_at(event)]
        return b"".join(passed) if self.hides else piece

    def catch_up(self) -> None:
        """Hear what was taken in, once the client has it."""
        unheard, self._unheard = self._unheard, []
        for value in unheard:
            self._listener.hear(value)

    def finish(self) -> bytes:
        """The answer is over, or cut; give what the client gets last."""
        if self._events is None:
            return b""
        passed = [event.raw for event in self._events.finish() if not self._look_at(event)]
        return b"".join(passed) + self._events.rest if self.hides else b""

    def tell(self, status: int) -> Heard:
        """What was said so far, by an answer with this status."""
        self.catch_up()
        heard = self._listener.tell()
        if status >= 400 and heard.complaint is None:
            text = self._kept[: 4 * _LONGEST].decode("utf-8", "replace").strip()[:_LONGEST]
            return replace(
                heard, complaint=Complaint(kind=None, message=text or "an error without a message")
            )
        return heard

    def _inflate(self, piece: bytes) -> bytes:
        if self._inflater is None:
            return b""
        try:
            return self._inflater.feed(piece)
        except Unreadable as error:
            self._inflater, self.trouble = None, str(error)
            return b""

    def _look_at(self, event: StreamEvent) -> bool:
        """Take in an event; True for one that the client must not see."""
        if not event.data:
            return False
        value = DONE if event.data.strip() == DONE else self._decode(event.data)
        self._unheard.append(value)
        self.is_over = self.is_over or self._listener.ends(value)
        return self.hides and is_usage_chunk(value)

    def _decode(self, data: bytes | str) -> object:
        try:
            value: object = msgspec.json.decode(data)
        except (msgspec.DecodeError, RecursionError) as error:
            self.trouble = f"a part of the answer is not JSON: {error}"
            return None
        return value
