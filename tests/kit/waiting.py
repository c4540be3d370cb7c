"""Waiting for what another process does, and a clock that waits for nothing."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field


def wait_for(holds: Callable[[], object], timeout: float = 60) -> None:
    deadline = time.monotonic() + timeout
    while not holds():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.02)


@dataclass
class Pauses:
    """Pauses that take no time; which were asked for."""

    taken: list[float] = field(default_factory=list)

    async def __call__(self, seconds: float) -> None:
        self.taken.append(seconds)
