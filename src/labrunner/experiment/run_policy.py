"""How a run is carried out: what may change when it goes on, and is part of no digest."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from labrunner.policy.budget import Budget

Keep = Literal["failed", "always", "never"]
ReplayMode = Literal["strict", "reuse"]
LOCAL: Final = "local"
"""The executor that is this machine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeepPolicy:
    """What is left of an attempt after its commit."""

    workspace: Keep
    logs: Keep


@dataclass(frozen=True, slots=True, kw_only=True)
class BreakerPolicy:
    """When a row of same failures pauses dispatch."""

    after: int
    give_up_after_s: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutorPlan:
    """Who carries attempts out; of a cluster: where it is, and which of its nodes take how many."""

    kind: str = LOCAL
    address: str = "auto"
    per_node: int | Literal["auto"] = "auto"
    labels: Mapping[str, str] = field(default_factory=dict)
    """What a node must be labelled with to be used; none: every node is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """How a run is carried out. Not part of the experiment's digest; may change on continue and retry."""

    max_concurrency: int | Literal["auto"]
    fail_on_error: bool | float
    continue_on_fail: bool
    retry_on_error: int
    breaker: BreakerPolicy
    min_free_disk_gb: float
    budget: Budget
    keep: KeepPolicy
    executor: ExecutorPlan = ExecutorPlan()
    max_connections: int | None = None
    """How many requests a model's provider gets at once, over all trials; None: the default."""
    max_retries: int | None = None
    """How often a request to a provider is made again."""
    request_timeout_s: float | None = None
    replay: str | None = None
    """The directory of a run whose recorded calls answer those of this one; None: providers answer."""
    replay_mode: ReplayMode = "strict"
    """What follows where no recorded call answers: an error, or the provider is asked."""

    @property
    def is_strict_replay(self) -> bool:
        """Whether no provider is ever asked."""
        return self.replay is not None and self.replay_mode == "strict"
