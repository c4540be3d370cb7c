"""Attempts that listeners serve: one where a listener is planted, all of a run where it is shared.

Rules: tokens are compared in constant time, with all that there are. One of the right form that is nobody's
is of an attempt that is not served yet, after this process was started again, or no longer: who has it may
come again. Each attempt has only so many connections, so that one can't take those of others. Once an attempt
is dismissed nothing of it is under way.
"""

import asyncio
import hmac
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final, Generic, Protocol, TypeVar

TOKEN_LENGTH: Final = 40
"""Hexadecimal digits of an attempt's token."""
_FORM: Final = re.compile(f"[0-9a-f]{{{TOKEN_LENGTH}}}")
UNSERVED: Final = "this attempt is not served now: not yet again, or no longer; try again in a moment"


class Holder(Protocol):
    """Who has a token."""

    @property
    def token(self) -> str:
        """What it shows."""


H = TypeVar("H", bound=Holder)


class TooManyConnections(Exception):
    """An attempt that has as many connections as it may."""


class Holders(Generic[H]):
    """Who is served, and what is under way for each."""

    def __init__(self, holders: Iterable[H] = ()) -> None:
        """Begin with these."""
        self._holders = list(holders)
        self._busy: dict[str, set[asyncio.Task[None]]] = {}

    def add(self, holder: H) -> None:
        """Serve one more."""
        self._holders.append(holder)

    def remove(self, holder: H) -> None:
        """Serve it no longer: its token is worth nothing from now on."""
        self._holders.remove(holder)

    def find_only(self) -> H | None:
        """Who needs no token, because the listener is its own; None once it is dismissed."""
        return self._holders[0] if len(self._holders) == 1 else None

    def find(self, tokens: Sequence[str]) -> H | None:
        """Whose token was given; every one is compared with every one."""
        found = [each for each in self._holders for token in tokens if is_same_token(token, each.token)]
        return found[0] if found else None

    @contextmanager
    def attending(self, holder: H, most: int) -> Iterator[None]:
        """Know that this task is at work for a holder. Raises TooManyConnections."""
        task = asyncio.current_task()
        assert task is not None
        busy = self._busy.setdefault(holder.token, set())
        if len(busy) >= most:
            raise TooManyConnections(f"this attempt has {most} connections at once already")
        busy.add(task)
        try:
            yield
        finally:
            busy.discard(task)

    async def dismiss(self, holder: H) -> None:
        """Serve it no longer, and cut what is under way for it: all of it is recorded on return."""
        self.remove(holder)
        busy = self._busy.pop(holder.token, set())
        for task in busy:
            task.cancel()
        if busy:
            await asyncio.wait(busy)


def is_same_token(one: str, other: str) -> bool:
    """Compare without telling by the time it takes how much was right."""
    return hmac.compare_digest(one.encode("utf-8", "replace"), other.encode("utf-8", "replace"))


def may_be_served_later(tokens: Sequence[str]) -> bool:
    """Whether a token that is nobody's now has the form of an attempt's."""
    return any(_FORM.fullmatch(token) for token in tokens)
