"""What an agent handed in as `result.json`: whether it has its shape, and what it says it has used.

It is the agent's own word. A figure that can't be true (negative, not finite, absurdly large, no number) is
passed over, and costs neither the result nor the other figures.
"""

from pathlib import Path
from typing import Any, Final

import msgspec

from labrunner.records import schema
from labrunner.trial.collection import RESULT_CAP
from labrunner.trial.handedin import read_plain

REPORTED: Final = ("tokens", "input_tokens", "output_tokens", "cost_usd", "requests")
"""Names in `metrics` that are kept as the attempt's use."""
MOST: Final = 10**12
"""Nothing that one attempt can have used is more than this."""


class _Result(msgspec.Struct):
    metrics: dict[str, Any] = {}  # any JSON: looked at one by one


_results: Final = msgspec.json.Decoder(_Result)


def is_agent_result(data: bytes) -> bool:
    """Whether this is an `agent_result_v1`."""
    try:
        schema.validate("agent_result_v1", data)
    except ValueError:
        return False
    return True


def read_usage(data: bytes) -> dict[str, float | int]:
    """What an `agent_result_v1` says was used; tokens in and out are added up where no sum is told."""
    metrics = _results.decode(data).metrics
    told = {name: metrics[name] for name in REPORTED if _is_amount(metrics.get(name))}
    parts = [told[name] for name in ("input_tokens", "output_tokens") if name in told]
    return {"tokens": sum(parts), **told} if parts else told


def read_reported(out: Path) -> dict[str, float | int]:
    """The same from an attempt's folder; nothing where no valid result lies there."""
    data = read_plain(out, "result.json", cap=RESULT_CAP)
    return read_usage(data) if isinstance(data, bytes) and is_agent_result(data) else {}


def _is_amount(value: object) -> bool:
    # A bool is an int in Python; a comparison with NaN is never true.
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= MOST
