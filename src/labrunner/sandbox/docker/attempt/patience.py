"""How long an attempt's container is waited for, where the engine and its kernel need their time."""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerPatience:
    """In seconds."""

    grace_s: float = 5.0
    """The watchdog inside has this much longer than its limit before we act from outside."""
    proof_s: float = 5.0
    """How long killed processes may take to be gone."""
    layer_pause_s: float = 2.0
    """Between two questions of how much a container has written, at least."""


PATIENCE: Final = ContainerPatience()
