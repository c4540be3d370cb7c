"""A trial as plain JSON, finished or not."""

from collections.abc import Mapping, Sequence

import msgspec

from labrunner.records.facts.earlier import EarlierAttempt
from labrunner.records.facts.invalidation import InvalidationRow
from labrunner.records.rows import SlotRows
from labrunner.runner.reports.unfinished import Unfinished
from labrunner.view.plain.underway_json import plain_under_way


def plain_trial(
    rows: SlotRows, earlier: Sequence[EarlierAttempt] = (), mark: InvalidationRow | None = None
) -> dict[str, object]:
    """A finished trial's rows, with what runs before this one did, and why it is not used, for programs."""
    told: dict[str, object] = msgspec.to_builtins(rows)
    if mark is not None:
        told["invalidated"] = {"reason": mark.reason, "who": mark.who, "at": mark.at}
    return told | ({"earlier": earlier} if earlier else {})


def plain_unfinished(found: Unfinished, logs: Mapping[str, str]) -> dict[str, object]:
    """A trial without a result, with the ends of what it wrote, for programs."""
    return {**plain_under_way(found), "folder": str(found.folder), "logs": logs}
