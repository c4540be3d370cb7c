"""Taking declared secrets out of what a sandbox wrote.

Values of 8 characters or more are searched as they are and in base64, at each of its three alignments.
"""

import base64
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

SHORTEST: Final = 8


@dataclass(frozen=True, slots=True)
class Masker:
    """Replaces secrets by their names."""

    needles: tuple[tuple[bytes, bytes], ...]

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


def make_masker(secrets: Mapping[str, str]) -> Masker:
    """Prepare the searches for these secrets, longest first so that none hides another."""
    needles = [
        (form, f"[masked:{name}]".encode())
        for name, value in secrets.items()
        if len(value) >= SHORTEST
        for form in _forms(value.encode())
    ]
    return Masker(tuple(sorted(needles, key=lambda pair: -len(pair[0]))))


def _forms(value: bytes) -> Iterator[bytes]:
    yield value
    for shift in range(3):
        encoded = base64.b64encode(b"\0" * shift + value)
        # The first group mixes in what stands before the secret, the last one what follows it.
        start = 4 if shift else 0
        end = len(encoded) - (4 if (len(value) + shift) % 3 else 0)
        if end - start >= SHORTEST:
            yield encoded[start:end]
