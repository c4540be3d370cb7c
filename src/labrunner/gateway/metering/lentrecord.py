"""What of a run's money its nodes' gateways have or had, on disk: who owns the run next forgets nothing.

    gateway/lent.json    what was lent to each

Rules: written before anything more is lent: what it says is never too little. Calls that were paid of it
say so where they lie.
"""

from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Final

import msgspec

from labrunner.errors import DamagedRun
from labrunner.files.durable import put_whole, storing
from labrunner.gateway.metering.fund import Statement
from labrunner.gateway.metering.purse import Taking

_NAME: Final = "lent.json"
_NAMES: Final = ("cost_usd", "tokens")


class LentTo(msgspec.Struct, frozen=True, kw_only=True):
    """One gateway, on a node."""

    node: str
    loan: Statement


class LentRecord(msgspec.Struct, frozen=True, kw_only=True):
    """All of them."""

    lent: Mapping[str, LentTo] = {}


def read_lent(folder: Path) -> LentRecord:
    """What was lent until now. Raises DamagedRun."""
    path = folder / _NAME
    try:
        return msgspec.json.decode(path.read_bytes(), type=LentRecord)
    except FileNotFoundError:
        return LentRecord()
    except msgspec.DecodeError as error:
        raise DamagedRun(f"{path}: found no record of what nodes may spend: {error}") from error


def write_lent(folder: Path, record: LentRecord) -> None:
    """Have it on disk. Raises StoreError."""
    path = folder / _NAME
    with storing("writing", path):
        folder.mkdir(mode=0o700, exist_ok=True)
        put_whole(path, msgspec.json.encode(record))


def sum_away(record: LentRecord) -> Taking:
    """What was spent on nodes, or may have been."""
    loans = [each.loan for each in record.lent.values()]
    return Taking.of({name: sum((_count(loan, name) for loan in loans), Decimal()) for name in _NAMES})


def _count(loan: Statement, name: str) -> Decimal:
    nothing = Decimal()
    lent = loan.granted.get(name, nothing) - loan.returned.get(name, nothing)
    return max(lent, loan.spent.get(name, nothing))
