"""What an agent handed in as `result.json`: whether it has its shape, what it says it has used, how it ended.

It is the agent's own word. A figure that can't be true (negative, not finite, absurdly large, no number) is
passed over, and costs neither the result nor the other figures.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import msgspec

from labrunner.files.strangers.hostile import read_plain
from labrunner.records import schema
from labrunner.trial.collecting.collection import RESULT_CAP

REPORTED: Final = ("tokens", "input_tokens", "output_tokens", "cost_usd", "requests")
"""Names in `metrics` that are kept as the attempt's use."""
MOST: Final = 10**12
"""Nothing that one attempt can have used is more than this."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentWord:
    """What an agent says of itself."""

    usage: Mapping[str, float | int] = field(default_factory=dict)
    outcome: str | None = None
    error: str | None = None
    """What went wrong, in its words."""


class _Error(msgspec.Struct):
    error_type: str | None = None
    message: str | None = None


class _Result(msgspec.Struct):
    outcome: str
    metrics: dict[str, Any] = {}  # any JSON: looked at one by one
    error: _Error | None = None


_results: Final = msgspec.json.Decoder(_Result)


def is_agent_result(data: bytes) -> bool:
    """Whether this is an `agent_result_v1`."""
    try:
        schema.validate("agent_result_v1", data)
    except ValueError:
        return False
    return True


def read_word(data: bytes) -> AgentWord:
    """What an `agent_result_v1` says."""
    told = _results.decode(data)
    error = [text for text in (told.error.error_type, told.error.message) if text] if told.error else []
    return AgentWord(usage=_read_usage(told), outcome=told.outcome, error=": ".join(error) or None)


def hear(out: Path) -> AgentWord:
    """The same from an attempt's folder; nothing where no valid result lies there."""
    data = read_plain(out, "result.json", cap=RESULT_CAP)
    return read_word(data) if isinstance(data, bytes) and is_agent_result(data) else AgentWord()


def _read_usage(told: _Result) -> dict[str, float | int]:
    """What was used; tokens in and out are added up where no sum is told."""
    metrics = told.metrics
    known = {name: metrics[name] for name in REPORTED if _is_amount(metrics.get(name))}
    parts = [known[name] for name in ("input_tokens", "output_tokens") if name in known]
    return {"tokens": sum(parts), **known} if parts else known


def _is_amount(value: object) -> bool:
    # A bool is an int in Python; a comparison with NaN is never true.
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= MOST
