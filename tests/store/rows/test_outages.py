"""When outages paused a run, on disk."""

from pathlib import Path

import pytest

from labrunner.errors import DamagedRun
from labrunner.records.cause import Cause
from labrunner.records.facts.outage_note import OutageNote
from labrunner.store.checking.verification import verify
from labrunner.store.rows.outages import load_outages, put_outage, read_outages
from tests.kit.made_runs import Told, make_grid, write_run

BEGUN = OutageNote(cause=Cause.PROVIDER, began_at="2026-01-01T00:00:10.000Z")
ENDED = OutageNote(
    cause=Cause.PROVIDER,
    began_at=BEGUN.began_at,
    ended_at="2026-01-01T00:01:10.000Z",
    end="answered",
)
NEXT = OutageNote(cause=Cause.ACCOUNT, began_at="2026-01-01T00:02:00.000Z")


def test_an_outage_that_is_over_takes_the_place_of_the_one_that_began(tmp_path: Path) -> None:
    paths = write_run(tmp_path, make_grid(), lambda _: Told())
    assert read_outages(paths) == ()
    for each in (BEGUN, ENDED, NEXT):
        put_outage(paths, each)
    assert read_outages(paths) == (ENDED, NEXT)
    assert verify(paths).problems == ()
    assert not [note for note in verify(paths).notes if "outages" in note]


def test_a_damaged_note_is_told_by_verify_and_left_out_elsewhere(tmp_path: Path) -> None:
    paths = write_run(tmp_path, make_grid(), lambda _: Told())
    put_outage(paths, ENDED)
    paths.outages.write_bytes(paths.outages.read_bytes().replace(b"00:01:10", b"00:09:10"))
    assert read_outages(paths) == ()
    with pytest.raises(DamagedRun, match="not as it was written"):
        load_outages(paths)
    assert [problem.file for problem in verify(paths).problems] == ["facts/outages.json"]
    put_outage(paths, NEXT)
    assert read_outages(paths) == (NEXT,)


def test_a_note_of_another_run_is_none_of_this_one(tmp_path: Path) -> None:
    one = write_run(tmp_path, make_grid(), lambda _: Told(), run_id="one")
    other = write_run(tmp_path, make_grid(), lambda _: Told(), run_id="other")
    put_outage(one, ENDED)
    other.outages.write_bytes(one.outages.read_bytes())
    assert read_outages(other) == ()
