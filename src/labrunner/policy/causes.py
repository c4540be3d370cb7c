"""What follows from each cause: one total table, keyed by cause, never by text or exception name."""

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
    most_retries: int | None
    """At most this many, whatever `retry_on_error` says."""
    backs_off: bool
    """Whether a retry waits: trouble of engines and providers passes with time, a bug doesn't."""
    counts: bool
    """Whether the trial counts towards `fail_on_error` once its retries are used up."""


CONSEQUENCES: Final[Mapping[Cause, Consequence]] = MappingProxyType(
    {
        Cause.GRADE_ERROR: Consequence(
            who="the grader", retried=True, most_retries=None, backs_off=False, counts=True
        ),
        Cause.SETUP: Consequence(
            who="the task's setup", retried=True, most_retries=None, backs_off=False, counts=True
        ),
        Cause.SANDBOX: Consequence(
            who="engine, image or host", retried=True, most_retries=None, backs_off=True, counts=True
        ),
        Cause.PROVIDER: Consequence(
            who="the model's provider", retried=True, most_retries=None, backs_off=True, counts=True
        ),
        Cause.SOLVER: Consequence(
            who="a Python solver or scorer", retried=True, most_retries=None, backs_off=False, counts=True
        ),
        Cause.RUNNER: Consequence(
            who="labrunner itself", retried=True, most_retries=1, backs_off=False, counts=True
        ),
    }
)
