"""How an attempt ended, as its executor reports it to the coordinator.

An attempt ends as exactly one of three types. Files stay in the attempt's folder and are named here by
digest and size: whoever carried the attempt out has synced (and, from another machine, delivered) them.
"""

from typing import Any, Literal

import msgspec

from labrunner.records.cause import Cause
from labrunner.records.encoding.ids import ArtifactUri, Digest, Index, Name, Ordinal

Verdict = Literal["pass", "fail"]
EndedBy = Literal[
    "timeout",
    "memory",
    "disk",
    "wrapper_killed",
    "time",
    "messages",
    "tokens",
    "cost",
    "requests",
    "working_time",
]
AgentOutcome = Literal["exited", "timed_out", "skipped"]


class FileRef(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A file of an attempt: path below the attempt's folder, content's digest, size in bytes."""

    path: Name
    digest: Digest
    size: Index


class PhaseFact(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """How one phase (setup, agent, grader) ended. Nothing here depends on clock or machine."""

    exit_status: int | None = None
    """Exit status, 128 + n for signal n; None when the phase was ended by us."""
    timed_out: bool = False
    oom_killed: bool = False
    over_disk: bool = False


class Evaluator(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Who judged."""

    name: Name
    mode: Literal["official", "custom"] = msgspec.field(default_factory=lambda: "custom")
    """A factory, because a plain default would be left out of rows, where this field is required."""
    version: str | None = None
    command: tuple[str, ...] | None = None


class Prediction(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """What was predicted, as the grader understood it."""

    kind: Literal["patch", "text", "json", "artifact_ref"]
    value: Any = None  # any JSON: the grader's own
    artifact_ref: ArtifactUri | None = None
    metadata: dict[str, Any] | None = None  # any JSON: the grader's own


class ArtifactRef(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A file that a grader points to."""

    ref: ArtifactUri
    logical_name: str | None = None
    mime_type: str | None = None


class Graded(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    forbid_unknown_fields=True,
    omit_defaults=True,
    tag="graded",
):
    """The attempt has a verdict, whatever its agent did."""

    verdict: Verdict
    primary_metric_name: Name
    primary_metric_value: float
    evaluator: Evaluator
    metrics: dict[str, float | int | str | bool | None] = {}
    prediction: Prediction | None = None
    artifacts: tuple[ArtifactRef, ...] = ()
    ext: dict[str, Any] = {}  # any JSON: the grader's own
    ended_by: EndedBy | None = None
    flags: tuple[str, ...] = ()
    """Facts that people should see: `missing` (nothing was delivered), `not_graded`, `invalid_result`…"""


class Failed(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    forbid_unknown_fields=True,
    omit_defaults=True,
    tag="failed",
):
    """The attempt has no verdict; somebody other than the agent is to blame. Missing data, not a zero."""

    cause: Cause
    reason: str
    """One machine-readable word, the same on every machine: `grader_exit`, `score_not_json`, …"""
    message: str
    """For people. May hold paths and times, so it goes to timings.jsonl only."""
    traceback: str | None = None


class Cancelled(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    forbid_unknown_fields=True,
    omit_defaults=True,
    tag="cancelled",
):
    """The run's budget, or the loss of the node that it ran on, cut it short: no result, the slot is owed."""

    reason: str


AttemptEnd = Graded | Failed | Cancelled


class AttemptTiming(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True
):
    """What depends on clock or machine about one attempt."""

    attempt: Ordinal
    started_at: str
    ended_at: str
    host: str
    sandbox: str
    node: str | None = None
    """Which node of a cluster carried it out, as the cluster calls it: a name, or an address. None where the
    run's own machine did."""
    phases_s: dict[str, float] = {}
    """Seconds spent in prepare, setup, agent, barrier, grader, collect."""
    limits: dict[str, float | int | str | bool | None] = {}
    """Limits as enforced, by name; None where one was not enforced."""
    usage: dict[str, float | int] = {}
    """Resource use as measured: cpu_s, max_rss_mb, disk_mb, tokens, cost_usd, … Of models: by the gateway's
    meter where it has recorded calls, with the agent's own figures beside it as `reported_…`; else the
    agent's own."""
    message: str | None = None
    traceback: str | None = None
    logs: tuple[FileRef, ...] = ()
    masked_secrets: int = 0
    masked: dict[str, int] = {}
    """How many secrets were masked, by file; `…` stands for files beyond the first 20."""
    dropped: dict[str, str] = {}
    """Files that were not kept, each with the reason."""
    folders: dict[str, Digest] = {}
    """Digests of folders as they are kept: `workspace`; `out` and `state` where they hold unnamed files."""
    workspace_digest: str | None = None
    """The workspace as it is kept, or, where policy throws it away, as the agent left it."""
    barrier: dict[str, int | str | bool] = {}
    agent_outcome: str | None = None
    """`outcome` of the agent's own `result.json`."""
    agent_error: str | None = None
    """What that file says went wrong, shortened."""
    left_nothing: bool = False
    """The agent left its workspace as it was, and nothing in `out/` and `state/`."""
    adopted: bool = False


class AttemptFact(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """What is fixed about one attempt: the same on every machine for the same agent behaviour."""

    attempt: Ordinal
    outcome: Literal["graded", "failed"]
    cause: Cause | None = None
    reason: str | None = None
    setup: PhaseFact | None = None
    agent: PhaseFact | None = None
    grader: PhaseFact | None = None
    grader_tries: int = 0


class Completion(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One attempt's end: a small record. The coordinator decides what follows."""

    token: str
    schedule_idx: Index
    trial_id: str
    attempt: Ordinal
    end: AttemptEnd
    setup: PhaseFact | None = None
    agent: PhaseFact | None = None
    grader: PhaseFact | None = None
    grader_tries: int = 0
    barrier: str = "none"
    """How the barrier was held: `pid_namespace`, `process_tree`, `separate_user`, `restarted`, …"""
    files: tuple[FileRef, ...] = ()
    """Files with the same content on every machine: result, prediction, score, collected artifacts."""
    timing: AttemptTiming
