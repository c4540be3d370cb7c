"""Outages that paused a run: `facts/outages.json`, written when one begins and when it is over.

For people and their pages: when dispatch waited, and why. No result rests on it, and no digest covers it.
"""

from typing import Literal

import msgspec

from labrunner.records.cause import Cause

OutageEnd = Literal["answered", "run_ended"]


class OutageNote(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A time in which the breaker let only probes through."""

    cause: Cause
    """What every attempt of the row had failed with."""
    began_at: str
    ended_at: str | None = None
    """Left out while it lasts, and where the run's owner died in it."""
    end: OutageEnd | None = None
    """`answered`: an attempt ended in another way; `run_ended`: the run ended before one did."""


class OutagesRecord(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`facts/outages.json`: the outages of a run, the oldest first; the file is there where there was one."""

    schema_version: Literal["outages_v1"]
    run_id: str
    outages: tuple[OutageNote, ...]
    seal: str = ""
    """Short digest of the record without it."""
