"""The run's funds on a node: what its gateway says of them goes to the coordinator."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

from labrunner.executor.cluster import tidings
from labrunner.executor.local import LocalExecutor
from labrunner.gateway.process.control import Stated


class NodeFunds:
    """What is said of them here."""

    def __init__(self) -> None:
        """Nothing yet."""
        self._said: asyncio.Queue[Stated | None] = asyncio.Queue()

    def hear(self, stated: Stated) -> None:
        """The gateway says how it stands."""
        self._said.put_nowait(stated)

    async def messages(self, local: LocalExecutor | None, trials: Path) -> AsyncIterator[bytes]:
        """What is said, until nobody says anything any more; first, how things stand here."""
        if local is None or not await local.find_gateway():
            from labrunner.gateway.process.borrowing import state_nobody
            from labrunner.gateway.process.introduction import find_place

            self.hear(await asyncio.to_thread(state_nobody, find_place(trials).folder))
        while (said := await self._said.get()) is not None:
            yield tidings.encode(said)

    def close(self) -> None:
        """Say nothing more."""
        self._said.put_nowait(None)
