"""What earlier runs of a lineage did for the slots of a run: a line of `facts/earlier.jsonl`.

Written once, when a retry or a regrading is made: such a run tells of every attempt before it, also when the
runs that carried them out are gone. Attempts of results that it took over stand in its own rows, not here.
"""

from typing import Final, Literal

import msgspec

from labrunner.records.cause import Cause
from labrunner.records.completion import PhaseFact, Verdict
from labrunner.records.encoding.ids import Ids, Index, Name, Ordinal

Standing = Literal["failed", "invalidated", "replaced", "changed", "graded_again"]
"""Why an attempt's result is not this run's: it had none (`failed`), somebody marked it, a newer one won over
it (`replaced`), its task or variant is another one now (`changed`), or this run only judges it anew."""
_SAME_QUESTION: Final = frozenset({"failed", "invalidated", "replaced"})


class EarlierAttempt(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True
):
    """One attempt of an earlier run."""

    run_id: Name
    """The run that carried it out."""
    attempt: Ordinal
    standing: Standing
    outcome: Literal["graded", "failed"]
    verdict: Verdict | None = None
    primary_metric_value: float | None = None
    cause: Cause | None = None
    reason: str | None = None
    agent: PhaseFact | None = None
    started_at: str
    ended_at: str
    phases_s: dict[str, float] = {}
    usage: dict[str, float | int] = {}
    message: str | None = None
    judged_in: Name | None = None
    """The run that judged its work anew (`graded_again`)."""

    @property
    def is_reroll(self) -> bool:
        """Whether the question of this run was put to an agent then; not where kept work was only judged."""
        return self.standing in _SAME_QUESTION and (self.agent is None or "agent" in self.phases_s)


class EarlierRow(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One slot's earlier attempts, the oldest first."""

    schema_version: Literal["earlier_attempts_v1"]
    schedule_idx: Index
    ids: Ids
    attempts: tuple[EarlierAttempt, ...]
