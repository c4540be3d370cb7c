"""What travels on a wire: batches of frames, as bytes.

Rule: order is kept among the frames of one question, and of nothing else.
"""

from collections.abc import Iterable
from typing import Any, Final, Literal

import msgspec

BATCH_BYTES: Final = 4_000_000
"""A batch takes no more frames once it holds so much."""
WINDOW_BYTES: Final = 1_000_000
"""Once so much is under way for one question, the rest waits until its reader has read on."""


class Question(msgspec.Struct, frozen=True, array_like=True, tag="ask"):
    """A question: the name of a worker's method, and what it is given."""

    number: int
    name: str
    words: tuple[Any, ...]  # texts, bytes and numbers: whoever is asked looks at them

    @property
    def size(self) -> int:
        """Bytes of it that count."""
        return sum(len(word) for word in self.words if isinstance(word, bytes))


class ReadOn(msgspec.Struct, frozen=True, array_like=True, tag="read"):
    """So many bytes of the answers to a question were read."""

    number: int
    count: int
    size = 0


class Unwanted(msgspec.Struct, frozen=True, array_like=True, tag="unwanted"):
    """Nobody waits for answers to a question any more."""

    number: int
    size = 0


Down = Question | ReadOn | Unwanted


class Said(msgspec.Struct, frozen=True, array_like=True):
    """What is said to a question: one of many answers, the last one, or how it broke."""

    number: int
    kind: Literal["more", "last", "broken"]
    data: bytes = b""

    @property
    def size(self) -> int:
        """Bytes of it that count."""
        return len(self.data)


_encoder: Final = msgspec.msgpack.Encoder()
_down: Final[msgspec.msgpack.Decoder[list[Down]]] = msgspec.msgpack.Decoder(list[Down])
_said: Final[msgspec.msgpack.Decoder[list[Said]]] = msgspec.msgpack.Decoder(list[Said])


def pack(frames: Iterable[Down] | Iterable[Said]) -> bytes:
    """Make a batch."""
    return _encoder.encode(list(frames))


def unpack_down(batch: bytes) -> list[Down]:
    """What a worker is told. Raises ValueError for anything else."""
    return _down.decode(batch)


def unpack_said(batch: bytes) -> list[Said]:
    """What a worker says. Raises ValueError for anything else."""
    return _said.decode(batch)
