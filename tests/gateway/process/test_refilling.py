"""What a run has paid, by what lies on its disk: each call once, whoever paid for it."""

from collections.abc import Iterable
from decimal import Decimal
from pathlib import Path

import msgspec
import pytest

from labrunner.gateway.process.refilling import begin_away, end_away, sum_run
from labrunner.gateway.recording.awaycalls import AWAY, AwayNote, read_away
from labrunner.gateway.recording.calljournal import open_journal
from labrunner.records.facts.model_call import CallRow, CallTokens
from tests.kit.gateway.callrows import make_row

MONEY = ("cost_usd", "tokens")


def cost(call_id: str, usd: float, tokens: int = 10, **more: object) -> CallRow:
    weight = CallTokens(input=tokens, output=0, basis="reported")
    return make_row(call_id=call_id, cost_usd=usd, tokens=weight, **more)


def write(folder: Path, ended: Iterable[CallRow] = (), begun: Iterable[CallRow] = ()) -> Path:
    """An attempt's calls, as a gateway leaves them that was killed."""
    folder.mkdir(parents=True, exist_ok=True)
    journal = open_journal(folder)
    for row in begun:
        journal.begin(row)
    for row in ended:
        journal.write(row, [])
    return folder


def paid(run: Path) -> tuple[Decimal | None, int, int]:
    taking = sum_run(run / "trials")
    return taking.cost_usd, taking.tokens, taking.requests


def test_calls_under_way_count_as_what_they_can_cost_and_each_once(tmp_path: Path) -> None:
    under_way = [cost("ended", 9.0), cost("lost", 2.0)]
    folder = write(tmp_path / "trials/t/1", [cost("ended", 1.0)], under_way)
    assert paid(tmp_path) == (Decimal("3.0"), 20, 2)
    open_journal(folder).close()  # whoever opens them next gives the lost one its row
    assert paid(tmp_path) == (Decimal("3.0"), 20, 2)


def test_what_a_recording_answered_costs_nothing(tmp_path: Path) -> None:
    write(tmp_path / "trials/t/1", [msgspec.structs.replace(cost("c", 1.0), replayed="r/t/1")])
    assert paid(tmp_path) == (Decimal(), 0, 0)


def test_calls_that_nodes_paid_of_what_was_lent_are_not_paid_here(tmp_path: Path) -> None:
    trials = tmp_path / "trials"
    write(trials / "t/1", [cost("here", 1.0)])
    begin_away(trials / "u/1", MONEY, write(trials / "u/1"))
    write(trials / "u/1", [cost("there", 4.0)])
    assert paid(tmp_path) == (Decimal("1.0"), 10, 2)


def test_what_was_paid_here_before_an_attempt_went_to_a_node_stays_paid_here(tmp_path: Path) -> None:
    folder = write(tmp_path / "trials/t/1", [cost("here", 1.0)], [cost("cut", 0.5)])
    for _ in range(2):  # who goes on after a crash notes it again
        begin_away(folder, MONEY, folder)
    write(folder, [cost("there", 4.0)])
    assert paid(tmp_path)[:2] == (Decimal("1.5"), 20)


def test_what_is_paid_here_once_all_have_come_home_is_paid_here(tmp_path: Path) -> None:
    folder = write(tmp_path / "trials/t/1", [cost("here", 1.0)])
    begin_away(folder, MONEY, folder)
    write(folder, [cost("there", 4.0)])
    end_away(folder)
    assert paid(tmp_path)[:2] == (Decimal("1.0"), 10)
    write(folder, [cost("grader", 2.0)])
    assert paid(tmp_path)[:2] == (Decimal("3.0"), 20)
    begin_away(folder, MONEY, folder)  # it goes to a node once more
    write(folder, [cost("there again", 8.0)])
    end_away(folder)
    assert paid(tmp_path)[:2] == (Decimal("3.0"), 20)


def test_what_was_not_lent_is_counted_where_it_lies(tmp_path: Path) -> None:
    folder = write(tmp_path / "trials/t/1")
    begin_away(folder, ("cost_usd",), folder)
    write(folder, [cost("there", 4.0)])
    assert paid(tmp_path)[:2] == (Decimal(), 10)


def test_what_was_lent_once_stays_noted_where_less_is_lent_now(tmp_path: Path) -> None:
    folder = write(tmp_path / "trials/t/1")
    begin_away(folder, MONEY, folder)
    write(folder, [cost("there", 4.0)])
    end_away(folder)
    begin_away(folder, ("tokens",), folder)
    write(folder, [cost("there again", 8.0)])
    end_away(folder)
    assert paid(tmp_path)[:2] == (Decimal(), 0)


def test_what_is_on_its_way_home_is_counted_where_it_comes_from(tmp_path: Path) -> None:
    home = write(tmp_path / "trials/t/.1.home", [cost("here", 1.0), cost("there", 4.0)])
    folder = write(tmp_path / "trials/t/1", [cost("here", 1.0)])
    begin_away(folder, MONEY, home)
    assert paid(tmp_path)[0] == Decimal("1.0")
    assert read_away(home, tmp_path.name) == AwayNote(
        run_id=tmp_path.name, here={"cost_usd": Decimal("1.0"), "tokens": Decimal(10)}
    )


@pytest.mark.parametrize(
    "note",
    [
        b"",
        b"{}",
        msgspec.json.encode(AwayNote(run_id="another", here={"cost_usd": Decimal()})),
        msgspec.json.encode({"run_id": "RUN", "here": {"cost_usd": "much"}}),
    ],
)
def test_a_note_that_is_none_of_this_run_lowers_nothing(tmp_path: Path, note: bytes) -> None:
    folder = write(tmp_path / "trials/t/1", [cost("c", 1.0)])
    (folder / AWAY).write_bytes(note.replace(b"RUN", tmp_path.name.encode()))
    assert paid(tmp_path)[0] == Decimal("1.0")


def test_a_note_that_gives_money_back_is_taken_for_nothing_paid(tmp_path: Path) -> None:
    folder = write(tmp_path / "trials/t/1", [cost("c", 1.0)])
    for note in (
        AwayNote(run_id=tmp_path.name, here={"cost_usd": Decimal(-5)}),
        AwayNote(run_id=tmp_path.name, away={"cost_usd": Decimal(5)}),
    ):
        (folder / AWAY).write_bytes(msgspec.json.encode(note))
        assert paid(tmp_path)[0] == Decimal()


def test_a_link_is_no_note(tmp_path: Path) -> None:
    folder = write(tmp_path / "trials/t/1", [cost("c", 1.0)])
    note = AwayNote(run_id=tmp_path.name, here={"cost_usd": Decimal()})
    (tmp_path / "elsewhere").write_bytes(msgspec.json.encode(note))
    (folder / AWAY).symlink_to(tmp_path / "elsewhere")
    assert paid(tmp_path)[0] == Decimal("1.0")
