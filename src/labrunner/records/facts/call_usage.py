"""What the calls of an attempt used, in the words of an attempt's `usage`. Pure.

Rules: a call counts as a request if it was passed on and asks for something that is billed, whatever came
of it. A sum of money holds what has a price; how many calls have none is told beside it, and where no call
has one there is no sum. What is 0 for every call is left out, but for requests and tokens. Calls that a
recording answered took nothing: what they took when they were recorded is summed apart, as `replayed_…`.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from labrunner.records.facts.model_call import CallRow

UNPRICED: Final = "unpriced_requests"
"""Calls that used tokens of a model without a price: the sum of money is then from below."""
_FREE: Final = frozenset({"models", "count_tokens"})
_NOT_PASSED_ON: Final = frozenset({"declined", "capped", "missed"})


def is_request(call: CallRow) -> bool:
    """Whether a call was passed on and asks for something that is billed."""
    return call.purpose not in _FREE and call.end not in _NOT_PASSED_ON


def prefer_calls(reported: Mapping[str, float | int], calls: Iterable[CallRow]) -> dict[str, float | int]:
    """An attempt's use: by its calls; what its agent says of the same stays beside it, as `reported_…`.

    That holds for money, too, where no call has a price: an agent's word is not put in the meter's place.
    """
    used = sum_calls(calls)
    metered = {*used, "cost_usd"} if used else set()
    kept = {f"reported_{name}" if name in metered else name: amount for name, amount in reported.items()}
    return {**kept, **used}


def sum_calls(calls: Iterable[CallRow]) -> dict[str, float | int]:
    """Requests, tokens and money of calls; nothing where there are none."""
    every = [call for call in calls if is_request(call)]
    made = [call for call in every if call.replayed is None]
    replayed = [call for call in every if call.replayed is not None]
    if not replayed:
        return _sum_made(made) if made else {}
    prices = [call.cost_usd for call in replayed if call.cost_usd is not None]
    return {
        **({} if made else {"cost_usd": 0.0}),
        **_sum_made(made),
        "replayed_requests": len(replayed),
        "replayed_tokens": sum(call.tokens.input + call.tokens.output for call in replayed if call.tokens),
        **({"replayed_cost_usd": math.fsum(prices)} if prices else {}),
    }


def _sum_made(made: Sequence[CallRow]) -> dict[str, float | int]:
    told = [call.tokens for call in made if call.tokens is not None]
    parts = {
        "cache_read_tokens": sum(each.cache_read for each in told),
        "cache_write_tokens": sum(each.cache_write for each in told),
        "reasoning_tokens": sum(each.reasoning for each in told),
        UNPRICED: sum(call.tokens is not None and call.cost_usd is None for call in made),
    }
    prices = [call.cost_usd for call in made if call.cost_usd is not None]
    return {
        "requests": len(made),
        "tokens": sum(each.input + each.output for each in told),
        "input_tokens": sum(each.input for each in told),
        "output_tokens": sum(each.output for each in told),
        **{name: amount for name, amount in parts.items() if amount},
        **({"cost_usd": math.fsum(prices)} if prices else {}),
    }
