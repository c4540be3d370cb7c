"""What was spent before, read from the calls on disk: a gateway that starts again forgets nothing."""

from collections.abc import Iterable
from decimal import Decimal
from pathlib import Path

from labrunner.gateway.metering.purse import Taking
from labrunner.gateway.recording.calljournal import CALLS, read_calls
from labrunner.records.facts.call_usage import is_request
from labrunner.records.facts.model_call import CallRow


def sum_takings(rows: Iterable[CallRow]) -> Taking:
    """What calls took, as purses count it; where a recording answered, what they took then."""
    cost, tokens, requests = Decimal(), 0, 0
    for row in rows:
        cost += Decimal(repr(row.cost_usd or 0.0))
        tokens += row.tokens.input + row.tokens.output if row.tokens else 0
        requests += is_request(row)
    return Taking(cost_usd=cost, tokens=tokens, requests=requests)


def sum_attempt(folder: Path) -> Taking:
    """What an attempt took until now. Raises DamagedRun."""
    return sum_takings(read_calls(folder))


def sum_run(trials: Path) -> Taking:
    """What all attempts of a run paid, those that were cut off too. Raises DamagedRun."""
    return _sum_paid(trials.glob(f"*/*/{CALLS}"))


def sum_paid(folder: Path) -> Taking:
    """What an attempt paid. Raises DamagedRun."""
    return _sum_paid(folder.glob(CALLS))


def _sum_paid(paths: Iterable[Path]) -> Taking:
    total = Taking()
    for path in paths:
        paid = (row for row in read_calls(path.parent) if row.replayed is None)
        total = total.plus(sum_takings(paid))
    return total
