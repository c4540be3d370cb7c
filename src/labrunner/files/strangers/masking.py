"""Taking declared secrets out of what a sandbox wrote.

Values of 8 characters or more are searched as they are, as JSON and URLs spell them, in hexadecimal, and in
base64 at each of its three alignments. What is compressed, encrypted, cut in two or spelt otherwise is not
found.
"""

import base64
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Final
from urllib.parse import quote, quote_plus

from labrunner.records.encoding import canonical

SHORTEST: Final = 8


@dataclass(frozen=True)  # without slots: what is derived is made once
class Masker:
    """Replaces secrets by their names."""

    needles: tuple[tuple[bytes, bytes], ...]
    """Spellings, longest first so that none hides another, each with what stands in its place."""

    @cached_property
    def longest(self) -> int:
        """Bytes of the longest spelling."""
        return max((len(needle) for needle, _ in self.needles), default=0)

    def mask(self, data: bytes) -> tuple[bytes, int]:
        """Return the data with every secret replaced, and how many were."""
        count = 0
        for needle, cover in self.needles:
            found = data.count(needle)
            if found:
                data = data.replace(needle, cover)
                count += found
        return data, count

    def mask_text(self, text: str) -> str:
        """A text without secrets, and without halves of characters."""
        return self.mask(text.encode(errors="replace"))[0].decode(errors="replace")

    def mask_document(self, data: bytes) -> tuple[bytes, int]:
        r"""The same for what may be JSON, where \u0073 is an s: a text is searched as its readers see it."""
        data, count = self.mask(data)
        if not self.needles or b"\\u" not in data:
            return data, count
        try:
            plain = canonical.decode_plain(data)
            masked = self.mask_plain(plain)
        except (ValueError, RecursionError):
            return data, count
        return (data, count) if masked == plain else (canonical.encode(masked), count + 1)

    def mask_plain(self, value: object) -> object:
        """A plain JSON value whose texts and keys have no secrets: decoding may have put one together."""
        match value:
            case str():
                return self.mask_text(value)
            case list() | tuple():
                return [self.mask_plain(each) for each in value]
            case dict():
                return {self.mask_plain(key): self.mask_plain(each) for key, each in value.items()}
            case _:
                return value

    def step_aside(self, data: bytes, cut: int) -> tuple[int, int]:
        """Where to cut instead, before and after, so that no secret is cut in two: halves are not found."""
        for at, cover in self.cover(data).items():
            if at < cut < at + len(cover):
                return at, at + len(cover)
        return cut, cut

    def cover(self, data: bytes) -> dict[int, bytes]:
        """What to write over each secret in place, by offset: as long as what it covers."""
        covers: dict[int, bytes] = {}
        for needle, cover in self.needles:
            at = data.find(needle)
            if at < 0:
                continue
            fill = cover.ljust(len(needle), b"*") if len(cover) <= len(needle) else b"*" * len(needle)
            changed = bytearray(data)
            while at >= 0:
                covers[at] = fill
                changed[at : at + len(needle)] = fill
                at = data.find(needle, at + len(needle))
            data = bytes(changed)  # a shorter one inside it is covered already
        return covers


def make_masker(secrets: Mapping[str, str]) -> Masker:
    """Prepare the searches for these secrets."""
    needles = {
        form: f"[masked:{name}]".encode()
        for name, value in secrets.items()
        if len(value) >= SHORTEST
        for form in _forms(value)
    }
    return Masker(tuple(sorted(needles.items(), key=lambda pair: -len(pair[0]))))


def _forms(value: str) -> Iterator[bytes]:
    """Every spelling that is searched."""
    raw = os.fsencode(value)  # variables of the environment need not be text
    yield raw
    yield from map(os.fsencode, _escaped(value))
    yield raw.hex().encode()
    yield raw.hex().upper().encode()
    for shift in range(3):
        encoded = base64.b64encode(b"\0" * shift + raw)
        # The first group mixes in what stands before the secret, the last one what follows it.
        start = 4 if shift else 0
        end = len(encoded) - (4 if (len(raw) + shift) % 3 else 0)
        if end - start >= SHORTEST:
            inner = encoded[start:end]
            yield inner
            yield inner.translate(bytes.maketrans(b"+/", b"-_"))
            yield inner.replace(b"/", b"\\/")


def _escaped(value: str) -> Iterator[str]:
    """As JSON, Python and URLs write it, where that differs."""
    yield repr(value)[1:-1]
    for is_ascii in (True, False):
        spelt = json.dumps(value, ensure_ascii=is_ascii)[1:-1]
        yield spelt
        yield spelt.replace("/", "\\/")
        yield json.dumps(spelt)[1:-1]  # JSON inside JSON, as logs of requests have it
    raw = os.fsencode(value)
    for quoted in (quote(raw, safe=""), quote(raw), quote_plus(raw)):
        yield quoted
        yield _lower_escapes(quoted)


def _lower_escapes(quoted: str) -> str:
    """The same with %2f for %2F, which some programs write."""
    first, *rest = quoted.split("%")
    return "%".join([first, *(part[:2].lower() + part[2:] for part in rest)])
