"""Rows of calls for tests."""

from typing import Any

import msgspec

from labrunner.records.encoding.ids import Ids
from labrunner.records.facts.model_call import CallRow

IDS = Ids(run_id="r", trial_id="t", variant_id="v", task_id="k", repl_idx=0)


def make_row(**changes: Any) -> CallRow:
    row = CallRow(
        schema_version="model_call_v1",
        call_id="c",
        ids=IDS,
        attempt=1,
        ordinal=0,
        provider="claude",
        protocol="anthropic",
        purpose="generate",
        model="m",
        started_at="2026-01-05T00:00:00.000Z",
        ended_at="2026-01-05T00:00:01.000Z",
        end="answered",
        status=200,
    )
    return msgspec.structs.replace(row, **changes)
