"""Where requests to one provider wait for their turn, whichever entry of `models:` they are for.

Rules: never more than so many at once, over all gateways of the run. A provider that asks to be left alone
for a while is left alone by all. Who waits first goes first.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from decimal import Decimal
from typing import Final

from labrunner.gateway.metering.allotment import Allotment, Use

CONNECTIONS: Final = "connections"
_NONE: Final = {CONNECTIONS: Decimal()}
_ONE: Final = {CONNECTIONS: Decimal(1)}


class Turnstile:
    """One provider's places."""

    def __init__(self, most: int, slots: "BorrowedSlots | None" = None) -> None:
        """All places are free; `slots` where they are borrowed."""
        self.most = most
        self.slots: AbstractAsyncContextManager[None] = slots or asyncio.Semaphore(most)
        self._resume_at = 0.0

    def pause(self, seconds: float) -> None:
        """Let nobody through for a while."""
        self._resume_at = max(self._resume_at, asyncio.get_running_loop().time() + seconds)

    async def wait_turn(self) -> None:
        """Until nobody asks any more to be left alone."""
        while True:
            left = self._resume_at - asyncio.get_running_loop().time()
            if left <= 0:
                return
            await asyncio.sleep(left)


class BorrowedSlots:
    """Places that are this gateway's only as long as they are lent to it."""

    def __init__(self, on_change: Callable[[], None]) -> None:
        """Have none yet."""
        self.allotment = Allotment(CONNECTIONS)
        self._on_change = on_change
        self._used = 0
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def __aenter__(self) -> None:
        """Have a place."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(future)
        self.let_in()
        try:
            await future
        except asyncio.CancelledError:
            if future.cancelled():
                self._waiting.remove(future)
                self._on_change()
            else:
                self._leave()
            raise

    async def __aexit__(self, *error: object) -> None:
        """Need it no more."""
        self._leave()

    def let_in(self) -> None:
        """Give those who wait what is there."""
        for future in list(self._waiting):
            if not self.allotment.has_room({CONNECTIONS: Decimal(self._used)}, _ONE):
                break
            if not future.done():
                self._waiting.remove(future)
                self._used += 1
                future.set_result(None)
        self._on_change()

    def tell_use(self) -> Use:
        """What is done here with what is lent."""
        held = {CONNECTIONS: Decimal(self._used)}
        if not self._waiting:
            return Use(spent=_NONE, held=held)
        return Use(spent=_NONE, held=held, wanted=_ONE, like={CONNECTIONS: Decimal(len(self._waiting) - 1)})

    def _leave(self) -> None:
        self._used -= 1
        self.allotment.free({CONNECTIONS: Decimal(self._used)})
        self.let_in()
