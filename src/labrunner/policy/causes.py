"""What follows from each cause: one total table, keyed by cause, never by text or exception name.

Nothing beside it decides: whoever wants to know what a cause leads to asks for a column.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from labrunner.records.cause import Cause


@dataclass(frozen=True, slots=True, kw_only=True)
class Consequence:
    """What a failed attempt's cause leads to."""

    who: str
    """The party at fault, for people."""
    retried: bool
    """Whether `retry_on_error` runs the trial again."""
    most_retries: int | None = None
    """At most this many, whatever `retry_on_error` says."""
    backs_off: bool = False
    """Whether a retry waits: trouble of engines and providers passes with time, a bug doesn't."""
    watched: bool
    """Whether the breaker takes a row of it for an outage."""
    blamable: bool
    """Whether an agent may say, by its exit status, that it was this."""
    counted: bool
    """Whether the trial counts towards `fail_on_error` once its retries are used up."""
    spoils_work: bool
    """Whether what the agent left can't be judged any more; else a grader may look at it again."""


CONSEQUENCES: Final[Mapping[Cause, Consequence]] = MappingProxyType(
    {
        Cause.GRADE_ERROR: Consequence(
            who="the grader", retried=True, watched=False, blamable=False, counted=True, spoils_work=False
        ),
        Cause.SETUP: Consequence(
            who="the task's setup", retried=True, watched=False, blamable=True, counted=True, spoils_work=True
        ),
        Cause.SANDBOX: Consequence(
            who="engine, image or host",
            retried=True,
            backs_off=True,
            watched=True,
            blamable=True,
            counted=True,
            spoils_work=True,
        ),
        Cause.PROVIDER: Consequence(
            who="the model's provider",
            retried=True,
            backs_off=True,
            watched=True,
            blamable=True,
            counted=True,
            spoils_work=True,
        ),
        Cause.ACCOUNT: Consequence(
            who="the account at the model's provider",
            retried=False,
            watched=True,
            blamable=False,
            counted=True,
            spoils_work=True,
        ),
        Cause.REPLAY: Consequence(
            who="the recording that is replayed",
            retried=False,
            watched=False,
            blamable=False,
            counted=True,
            spoils_work=True,
        ),
        Cause.SOLVER: Consequence(
            who="a Python solver or scorer",
            retried=True,
            watched=False,
            blamable=True,
            counted=True,
            spoils_work=True,
        ),
        Cause.RUNNER: Consequence(
            who="labrunner itself",
            retried=True,
            most_retries=1,
            watched=False,
            blamable=False,
            counted=True,
            spoils_work=True,
        ),
    }
)

BLAMABLE: Final = tuple(sorted(cause for cause, follows in CONSEQUENCES.items() if follows.blamable))
"""The causes that an agent's exit status may name."""
