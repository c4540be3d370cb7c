"""What of a run's money its nodes' gateways have or had, on disk: who owns the run next forgets nothing.

    gateway/lent.json    what was lent to each, and what of that is found in calls that came home

Rule: written before anything more is lent, and after calls have come home: what it says is never too little.
"""

from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Final

import msgspec

from labrunner.errors import DamagedRun
from labrunner.files.durable import put_whole, storing
from labrunner.gateway.metering.fund import Amounts, Statement
from labrunner.gateway.metering.purse import Taking

_NAME: Final = "lent.json"
_NAMES: Final = ("cost_usd", "tokens")


class LentTo(msgspec.Struct, frozen=True, kw_only=True):
    """One gateway, on a node."""

    node: str
    loan: Statement


class LentRecord(msgspec.Struct, frozen=True, kw_only=True):
    """All of them, and what of their calls has come home."""

    lent: Mapping[str, LentTo] = {}
    home: Amounts = {}


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
    """What was spent on nodes, or may have been, and is in no call that came home."""
    total = dict.fromkeys(_NAMES, Decimal())
    for each in record.lent.values():
        for name in _NAMES:
            total[name] += count_loan(each.loan, name)
    nothing = Decimal()
    away = {name: max(nothing, total[name] - record.home.get(name, nothing)) for name in _NAMES}
    return Taking.of(away)


def count_loan(loan: Statement, name: str) -> Decimal:
    """What of a loan is spent, or may have been."""
    nothing = Decimal()
    lent = loan.granted.get(name, nothing) - loan.returned.get(name, nothing)
    return max(lent, loan.spent.get(name, nothing))
