"""One encoder for everything that is hashed or compared: sorted keys, no spaces, shortest floats, UTF-8.

Rule: bytes that went through `encode` come back unchanged from `encode(decode(...))`.
"""

import hashlib
import math
import sys
from collections.abc import Iterable
from datetime import datetime
from typing import Final

import msgspec

_encoder: Final = msgspec.json.Encoder(order="sorted")
_decoder: Final = msgspec.json.Decoder()


def encode(value: object) -> bytes:
    """Encode a record or a plain JSON value canonically."""
    return _encoder.encode(value)


def encode_line(value: object) -> bytes:
    """Encode a record as one line of a JSONL file."""
    return _encoder.encode(value) + b"\n"


def stamp(moment: datetime) -> str:
    """A UTC time as records write it."""
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def decode_plain(data: bytes | str) -> object:
    """Decode JSON into plain values."""
    return _decoder.decode(data)


def digest_bytes(*parts: bytes) -> str:
    """Digest of byte strings, one after another, in the form `sha256:<hex>`."""
    return digest_stream(parts)


def digest_stream(parts: Iterable[bytes]) -> str:
    """Digest of byte strings that are made one at a time."""
    state = hashlib.sha256()
    for part in parts:
        state.update(part)
    return f"sha256:{state.hexdigest()}"


def digest(value: object) -> str:
    """Digest of a value's canonical bytes."""
    return digest_bytes(encode(value))


def has_only_finite_numbers(value: object) -> bool:
    """Whether every number of a plain JSON value is one for whoever reads it.

    JSON knows no NaN and no infinity; a whole number beyond the largest float is infinity to most readers.
    """
    match value:
        case int():
            return abs(value) <= sys.float_info.max
        case float():
            return math.isfinite(value)
        case dict():
            return _all_finite(value.values())
        case list() | tuple():
            return _all_finite(value)
        case _:
            return True


def _all_finite(values: Iterable[object]) -> bool:
    return all(has_only_finite_numbers(value) for value in values)
