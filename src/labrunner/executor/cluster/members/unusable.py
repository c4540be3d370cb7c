"""Nodes that could not be used: why, and when each is tried again; each time twice as late."""

import asyncio
import time
from collections.abc import Iterable

from labrunner.executor.cluster.members.node import NodePace


class Unusable:
    """What is known of them, by name."""

    def __init__(self, pace: NodePace) -> None:
        """Know nothing against any."""
        self._pace = pace
        self._not_before: dict[str, tuple[float, float]] = {}
        self.problems: dict[str, str] = {}

    def add(self, name: str, why: str) -> None:
        """A node was tried, and can't be used now."""
        self.problems[name] = why
        _, wait = self._not_before.get(name, (0.0, self._pace.again_s))
        self._not_before[name] = (time.monotonic() + wait, min(2 * wait, self._pace.latest_s))

    def forget(self, name: str) -> None:
        """A node is used."""
        self.problems.pop(name, None)
        self._not_before.pop(name, None)

    def is_due(self, name: str) -> bool:
        """Whether a node may be tried now."""
        return self._due_at(name) <= time.monotonic()

    async def until_due(self, names: Iterable[str]) -> None:
        """Wait until all of these may be tried."""
        due = max(map(self._due_at, names), default=0.0)
        await asyncio.sleep(max(0.0, due - time.monotonic()))

    def _due_at(self, name: str) -> float:
        return self._not_before.get(name, (0.0, 0.0))[0]
