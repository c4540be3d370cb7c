"""How long nothing may pass through a connection, and how it is brought to an end from inside."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from labrunner.gateway.hosts.passage import Turned

_COARSE_S: Final = 1.0
"""A timer for every piece would cost more than the piece."""


class Pulse:
    """Ends what it is kept around when nothing has passed for too long, or when it is told to."""

    def __init__(self, idle_s: float) -> None:
        """Begin to count when it is kept."""
        self._idle_s = idle_s
        self._scope = asyncio.timeout(None)
        self._touched = 0.0
        self._failure: Exception | None = None

    @asynccontextmanager
    async def kept(self) -> AsyncIterator[None]:
        """Raises what it was halted with, or Turned where nothing passed."""
        try:
            async with self._scope:
                self.touch()
                yield
        except TimeoutError as error:
            if not self._scope.expired():
                raise
            told = f"nothing passed for {self._idle_s:g} s"
            raise (self._failure or Turned("timeout", 504, told, end="failed")) from error
        if self._failure is not None:
            raise self._failure

    def touch(self) -> None:
        """Something passed."""
        now = asyncio.get_running_loop().time()
        if self._failure is None and now - self._touched >= min(_COARSE_S, self._idle_s / 10):
            self._touched = now
            self._scope.reschedule(now + self._idle_s)

    def halt(self, failure: Exception) -> None:
        """End it now; the first failure counts."""
        if self._failure is None:
            self._failure = failure
            if not self._scope.expired():
                self._scope.reschedule(asyncio.get_running_loop().time())
