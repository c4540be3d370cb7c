"""What models used, as an `.eval` log tells it."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol

from labrunner.records.completion import AttemptTiming
from labrunner.records.facts.earlier import EarlierAttempt

Plain = dict[str, Any]  # JSON, as that format has it
Tried = AttemptTiming | EarlierAttempt
_USED: Final = frozenset(
    {
        "input_tokens",
        "output_tokens",
        "total_tokens",
        "input_tokens_cache_read",
        "input_tokens_cache_write",
        "reasoning_tokens",
        "cost_usd",
    }
)


class Talk(Protocol):
    """A transcript."""

    @property
    def told(self) -> Sequence[Mapping[str, Any]]:
        """Its events."""
        ...


def sum_usage(model: str, attempts: Sequence[Tried], spoken: Sequence[Talk]) -> dict[str, Plain]:
    """What each model used: by its calls where they went through the gateway, else `model`, as it was told.

    The last attempts are those whose transcripts are given.
    """
    talked = [_sum_calls(talk) for talk in spoken]
    before = attempts[: len(attempts) - len(talked)]
    own = zip(attempts[len(before) :], talked, strict=True)
    whole = _sum_told(model, [*before, *(each for each, used in own if not used)])
    for used in talked:
        for name, each in used.items():
            add_usage(whole.setdefault(name, {}), each)
    return whole


def make_usage(plain: Mapping[str, Any]) -> Plain:
    """What one call used."""
    names = {"cost_usd": "total_cost"}
    told = {name: value for name, value in plain.items() if value is not None and name in _USED}
    return {names.get(name, name): value for name, value in told.items()}


def add_usage(sums: Plain, used: Mapping[str, Any]) -> None:
    """Add what was used to sums."""
    for name, amount in used.items():
        sums[name] = sums.get(name, 0) + amount


def _sum_calls(talk: Talk) -> dict[str, Plain]:
    """What calls through the gateway used, by model; nothing for other transcripts."""
    sums: dict[str, Plain] = {}
    for event in talk.told:
        if event["event"] == "model" and "call" in event and event["usage"]:
            add_usage(sums.setdefault(event["model"], {}), make_usage(event["usage"]))
    return sums


def _sum_told(model: str, attempts: Sequence[Tried]) -> dict[str, Plain]:
    tokens = sum(int(attempt.usage.get("tokens", 0)) for attempt in attempts)
    told = {
        "input_tokens": sum(int(attempt.usage.get("input_tokens", 0)) for attempt in attempts),
        "output_tokens": sum(int(attempt.usage.get("output_tokens", 0)) for attempt in attempts),
        "total_tokens": tokens,
    }
    costs = [attempt.usage["cost_usd"] for attempt in attempts if "cost_usd" in attempt.usage]
    if not tokens and not costs:
        return {}
    return {model: told | ({"total_cost": sum(costs)} if costs else {})}
