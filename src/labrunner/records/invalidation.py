"""Marks on committed trials that are not to be used: one line each of `facts/invalidations.jsonl`."""

from typing import Annotated, Literal

import msgspec


class InvalidationRow(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One line of `facts/invalidations.jsonl`: a trial not to be used, with who said so and why."""

    schema_version: Literal["invalidation_v1"]
    trial_id: Annotated[str, msgspec.Meta(min_length=1)]
    schedule_idx: Annotated[int, msgspec.Meta(ge=0)]
    reason: str
    who: str
    at: str
