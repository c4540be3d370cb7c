"""The parts of rows that figures are made of, for readers that go through a whole run.

Decoding skips everything else in a line, which makes it several times faster than decoding the row. What is
committed was checked when it was written; these types check again only what they read.
"""

from typing import Final, Literal

import msgspec

from labrunner.records.cause import Cause


class GlanceIds(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Whose row it is."""

    trial_id: str
    variant_id: str
    task_id: str
    repl_idx: int


class PhaseGlance(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """How a phase ended."""

    exit_status: int | None = None


class AttemptGlance(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One attempt."""

    attempt: int
    agent: PhaseGlance | None = None


class TrialGlance(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A line of `facts/trials.jsonl`."""

    schedule_idx: int
    ids: GlanceIds
    outcome: Literal["graded", "failed", "cancelled"]
    verdict: Literal["pass", "fail"] | None
    primary_metric_name: str | None
    primary_metric_value: float | None
    cause: Cause | None
    ended_by: str | None
    flags: tuple[str, ...]
    barrier: str
    attempts: tuple[AttemptGlance, ...]


class BarrierGlance(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What was seen at the barrier."""

    changed: str = ""
    """The first paths that the agent changed outside its folders, one a line."""


NOTHING_SEEN: Final = BarrierGlance()


class AttemptTimes(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One attempt's times and use."""

    ended_at: str
    phases_s: dict[str, float] = {}
    usage: dict[str, float] = {}
    adopted: bool = False
    masked_secrets: int = 0
    dropped: dict[str, str] = {}
    agent_outcome: str | None = None
    left_nothing: bool = False
    barrier: BarrierGlance = NOTHING_SEEN


class TimingGlance(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A line of `facts/timings.jsonl`."""

    schedule_idx: int
    attempts: tuple[AttemptTimes, ...]
    cut_off: tuple[str, ...] = ()
    cut_off_usage: dict[str, float] = {}
    edited: bool = False


class SlotGlance(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A finished slot that waits in the buffer."""

    schedule_idx: int
    trial: TrialGlance
    timing: TimingGlance
