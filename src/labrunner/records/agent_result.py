"""What an agent may hand in as `result.json`. It is the agent's own word: read, kept, and no verdict."""

from typing import Any, Literal

import msgspec

from labrunner.records.encoding.ids import Ids, Name

MetricValue = float | int | str | bool | None


class Objective(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """What the agent says it optimised."""

    name: str
    value: float
    direction: Literal["maximize", "minimize"] | None = None


class ResultArtifact(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True
):
    """A file that the agent points to."""

    path: Name
    logical_name: str | None = None
    mime_type: str | None = None


class Checkpoint(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A state of the agent that it kept."""

    path: Name
    logical_name: str | None = None
    step: int | None = None
    epoch: float | None = None


class ResultError(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """What went wrong, in the agent's words."""

    error_type: str | None = None
    message: str | None = None
    stack: str | None = None


class AgentResult(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """`/agentlab/out/result.json`."""

    schema_version: Literal["agent_result_v1"]
    ids: Ids
    outcome: Literal["success", "failure", "missing", "error"]
    answer: str | dict[str, Any] | list[Any] | None = None  # any JSON: the agent's own
    metrics: dict[str, MetricValue] = {}
    objective: Objective | None = None
    artifacts: tuple[ResultArtifact, ...] = ()
    checkpoints: tuple[Checkpoint, ...] = ()
    error: ResultError | None = None
    ext: dict[str, Any] = {}  # any JSON: the agent's own
