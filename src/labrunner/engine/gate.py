"""Whether dispatch may go on now: closed by an outage (the breaker) and by a disk that runs full."""

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from labrunner.engine.queue import Pending
from labrunner.policy.breaker import Breaker

LOOK_AT_DISK_S: Final = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Pause:
    """Dispatch waits."""

    until: float | None
    """When to look again; None when only an attempt's end can change it."""
    why: str


class Gate:
    """Stands between the queue and the executor."""

    def __init__(
        self, breaker: Breaker[Pending], *, free_gb: Callable[[], float], min_free_gb: float
    ) -> None:
        """Take the breaker, and how to look at the disk."""
        self.breaker = breaker
        self._free_gb = free_gb
        self._min_free_gb = min_free_gb
        self._looked_at = float("-inf")
        self._is_low = False
        self._seen_gb = 0.0

    def check(self, now: float) -> Pause | None:
        """Say whether dispatch waits; None lets one attempt through."""
        if self.breaker.is_open:
            return self._wait_for_probe(now)
        if self._min_free_gb > 0 and now - self._looked_at >= LOOK_AT_DISK_S:
            self._looked_at = now
            self._seen_gb = self._free_gb()
            self._is_low = self._seen_gb < self._min_free_gb
        if not self._is_low:
            return None
        why = f"{self._seen_gb:.1f} GB free, waiting for {self._min_free_gb:g} (min_free_disk_gb)"
        return Pause(until=self._looked_at + LOOK_AT_DISK_S, why=why)

    def _wait_for_probe(self, now: float) -> Pause | None:
        cause, probe_at = self.breaker.cause, self.breaker.probe_at
        if probe_at is None:
            return Pause(until=None, why=f"paused: {cause} keeps failing, one trial is probing")
        if probe_at <= now:
            self.breaker.start_probe()
            return None
        return Pause(
            until=probe_at, why=f"paused: {cause} keeps failing, next probe in {probe_at - now:.0f} s"
        )


def free_gb_at(folder: Path) -> Callable[[], float]:
    """How to look at the free space where a folder lies."""
    return lambda: shutil.disk_usage(folder).free / 1e9
