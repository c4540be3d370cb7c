"""What was spent before, read from the calls on disk: a gateway that starts again forgets nothing."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

from labrunner.gateway.metering.purse import Taking
from labrunner.gateway.recording.awaycalls import AwayNote, read_away, write_away
from labrunner.gateway.recording.calljournal import read_calls
from labrunner.gateway.recording.opencalls import read_open
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
    """What all attempts of a run paid here, those that were cut off too; what is under way, at its dearest.

    What nodes paid of what was lent to them is counted where it was lent. Raises DamagedRun.
    """
    total = Taking()
    for folder in trials.glob("*/*"):
        if not folder.name.startswith("."):  # such a one is on its way home, and what it replaces lies there
            total = total.plus(_sum_here(folder))
    return total


def begin_away(folder: Path, names: Iterable[str], place: Path) -> None:
    """Note in `place` that an attempt's calls which come there were paid of what was lent.

    But for those that lie in its folder already, as far as these were paid here.
    Raises DamagedRun, StoreError.
    """
    here, run_id = _sum_here(folder).amounts, _name_run(folder)
    before = read_away(folder, run_id) or AwayNote(run_id=run_id)
    known = {*names, *before.here, *before.away} & here.keys()  # what is not lent any more was lent before
    write_away(place, AwayNote(run_id=run_id, here={name: here[name] for name in known}))


def end_away(place: Path) -> None:
    """All of them have come there: calls that are made from now on are paid here. Raises as above."""
    run_id = _name_run(place)
    if (note := read_away(place, run_id)) is not None:
        paid = _sum_all(place).amounts
        away = {name: paid[name] - note.here[name] for name in note.here}
        write_away(place, AwayNote(run_id=run_id, away=away))


def _sum_here(folder: Path) -> Taking:
    """What an attempt paid here."""
    paid, note = _sum_all(folder), read_away(folder, _name_run(folder))
    if note is None:
        return paid
    return replace(Taking.of(note.count_here(paid.amounts)), requests=paid.requests)


def _sum_all(folder: Path) -> Taking:
    """What an attempt paid, wherever."""
    return sum_takings(row for row in _read_all(folder) if row.replayed is None)


def _name_run(folder: Path) -> str:
    return folder.parents[2].name


def _read_all(folder: Path) -> Iterator[CallRow]:
    """Calls that have ended, and those under way: of these first, for they may end meanwhile."""
    begun = {row.call_id: row for row in read_open(folder)}
    for row in read_calls(folder):
        begun.pop(row.call_id, None)
        yield row
    yield from begun.values()
