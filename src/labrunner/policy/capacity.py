"""How much at once: trials where `max_concurrency` is `auto`, and requests to a provider."""

from dataclasses import dataclass
from typing import Final

KEPT_BACK_MB: Final = 512
CONNECTIONS: Final = 10
"""Requests that a provider gets at once, over all trials of a run, where nobody says otherwise: of Python
tasks and through the gateway alike."""
RETRIES: Final = 5
"""How often a request that failed is made again, where nobody says otherwise: for both alike."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """What this machine has to give."""

    cpus: int
    memory_mb: int


def decide_concurrency(host: Host, *, cpus: float, memory_mb: int, planned: int) -> int:
    """As many trials as fit into cores and memory, never fewer than one nor more than are planned."""
    by_cpu = int(host.cpus / cpus) if cpus > 0 else host.cpus
    by_memory = int(max(0, host.memory_mb - KEPT_BACK_MB) / memory_mb) if memory_mb > 0 else by_cpu
    return max(1, min(by_cpu, by_memory, max(1, planned)))
