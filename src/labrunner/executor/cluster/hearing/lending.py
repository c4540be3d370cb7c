"""Connections to providers that all attempts of a run share, wherever they are: lent where they are counted.

Rules: who asks first has the first one that is free. An attempt that has ended, or whose node is lost, has
none any more.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager

from labrunner.executor.cluster.tidings import ConnectionAsked, ConnectionLeft
from labrunner.files.uninterrupted import wait_out


class Lender:
    """All connections of a run, by provider."""

    def __init__(self) -> None:
        """Nobody has asked yet."""
        self._places: dict[str, asyncio.Semaphore] = {}

    @asynccontextmanager
    async def serve(self, grant: Callable[[int], Awaitable[None]]) -> AsyncIterator["Desk"]:
        """While inside, an attempt may ask; `grant` tells it the number of what it has, and never raises."""
        desk = Desk(self, grant)
        try:
            yield desk
        finally:
            await desk.close()

    def find(self, provider: str, most: int) -> asyncio.Semaphore:
        """Those of a provider: as many as were asked for first."""
        return self._places.setdefault(provider, asyncio.Semaphore(most))


class Desk:
    """What one attempt has, and what it waits for."""

    def __init__(self, lender: Lender, grant: Callable[[int], Awaitable[None]]) -> None:
        """Lend nothing yet."""
        self._lender, self._grant = lender, grant
        self._loans: dict[int, asyncio.Task[None]] = {}

    async def hear(self, told: ConnectionAsked | ConnectionLeft) -> None:
        """Lend one as soon as one is free, or take it back, whether or not it was had yet."""
        match told:
            case ConnectionAsked(seq=seq, provider=provider, most=most):
                work = self._lend(seq, self._lender.find(provider, most))
                self._loans[seq] = asyncio.ensure_future(work)
            case ConnectionLeft(seq=seq):
                if (loan := self._loans.pop(seq, None)) is not None:
                    await _end([loan])

    async def close(self) -> None:
        """Take everything back."""
        await _end(list(self._loans.values()))

    async def _lend(self, seq: int, place: asyncio.Semaphore) -> None:
        async with place:
            await self._grant(seq)
            await asyncio.Event().wait()  # until it is taken back


async def _end(loans: Sequence[asyncio.Task[None]]) -> None:
    for loan in loans:
        loan.cancel()
    cancelled = [await wait_out(loan) for loan in loans]
    for told in filter(None, cancelled):
        raise told
