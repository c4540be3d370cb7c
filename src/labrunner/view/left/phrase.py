"""A phrase that somebody looks for in what trials wrote: sought in bytes as they lie, quoted from text.

Rules: letters great and small are alike. Most files do not hold the phrase, and that is seen from their
bytes: the longest piece of it that every encoding writes as it is has to stand there. What may hold it is
decoded.
"""

import re
from dataclasses import dataclass
from typing import Final

BEFORE: Final = 60
AFTER: Final = 120
"""Characters of what stands around a phrase."""
_PLAIN: Final = re.compile(r"[a-z0-9 _.,:;=+*()\[\]{}#@!?%~|$-]+")
"""What JSON's encoders, of all kinds, leave as it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Quotation:
    """Where a phrase stands, with what stands around it."""

    where: str
    """`conversation`, `terminal` or `answer`."""
    path: str | None = None
    before: str
    match: str
    after: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Phrase:
    """What is looked for."""

    text: str
    """In small letters."""
    core: bytes
    """Of it, what stands in bytes as it is; empty where nothing does."""

    @classmethod
    def of(cls, text: str) -> "Phrase":
        """Look for this."""
        small = text.strip().lower()
        pieces = [found[0] for found in _PLAIN.finditer(small)]
        return cls(text=small, core=max(pieces, key=len, default="").strip().encode())

    def may_be_in(self, data: bytes) -> bool:
        """Whether bytes can hold the phrase."""
        return self.core in data.lower()

    def quote(self, text: str, where: str, path: str | None = None) -> Quotation | None:
        """The first place where a text holds the phrase."""
        at = text.lower().find(self.text)
        if at < 0 or not self.text:
            return None
        end = at + len(self.text)
        return Quotation(
            where=where,
            path=path,
            before=text[max(0, at - BEFORE) : at],
            match=text[at:end],
            after=text[end : end + AFTER],
        )
