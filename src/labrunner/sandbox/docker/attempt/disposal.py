"""Containers that wait for their attempt to be released, and their removal: few at a time, tried again."""

import asyncio
import logging
from collections.abc import Sequence
from typing import Final

from labrunner.errors import SandboxFailed
from labrunner.policy.backoff import wait_s
from labrunner.sandbox.docker.engine.client import Engine
from labrunner.sandbox.docker.engine.labels import KEPT

AT_ONCE: Final = 4
TRIES: Final = 7
FIRST_PAUSE_S: Final = 0.5

_log = logging.getLogger("labrunner.docker")


class Removals:
    """What is held, by the token of its attempt."""

    def __init__(self, engine: Engine) -> None:
        """Hold nothing yet."""
        self._engine = engine
        self._held: dict[str, tuple[list[str], list[str]]] = {}
        self.rest()

    def rest(self) -> None:
        """Let go of the event loop."""
        self._places = asyncio.Semaphore(AT_ONCE)

    def hold(self, token: str, containers: list[str], over: list[str]) -> None:
        """Hold an attempt's containers, and those that are over; lists may grow until it is released."""
        self._held[token] = containers, over

    async def release(self, token: str, *, keep: bool) -> None:
        """Remove an attempt's containers, or keep them under a name that tells; not those that are over.

        Those come last: one that can't be removed for a while holds nothing up that somebody wants to see.
        """
        containers, over = self._held.pop(token, ((), ()))
        for container in containers:
            await (self._keep(container, token) if keep else self.remove(container))
        for container in over:
            await self.remove(container)

    async def _keep(self, container: str, token: str) -> None:
        """Say by its name that a container was kept. One that is gone can't be."""
        try:
            await self._engine.rename(container, f"{KEPT}{token[:12]}-{container[:6]}")
        except SandboxFailed as failure:
            _log.warning("container %s could not be kept: %s", container[:12], failure)

    async def remove_all(self, containers: Sequence[str]) -> None:
        """Remove containers that nobody holds."""
        async with asyncio.TaskGroup() as group:
            for container in containers:
                group.create_task(self.remove(container))

    async def remove(self, container: str) -> None:
        """Remove a container. One that can't be removed now is found by the next owner of its run."""
        told = ""
        for before in range(TRIES):
            try:
                async with self._places:
                    return await self._engine.remove(container)
            except SandboxFailed as failure:
                told = str(failure)
            if self._engine.is_given_up:
                break
            await asyncio.sleep(wait_s(before, first_s=FIRST_PAUSE_S))
        _log.warning("container %s could not be removed: %s", container[:12], told)
        return None
