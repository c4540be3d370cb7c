from pathlib import Path

from labrunner.display.runs import show_runs
from labrunner.records.run import Counts
from labrunner.store.layout import RunPaths
from labrunner.store.listing import RunListing
from tests.display.printing import to_text

RUN_ID = "2026-05-29T12-38-43_math_Gprr29Mv"
COUNTS = Counts(planned=72, committed=30, buffered=4, running=2, passed=20, failed=13, errors=1)


def test_each_run_has_a_line_and_an_unreadable_one_says_why() -> None:
    listings = [
        RunListing(paths=RunPaths(Path(RUN_ID)), run_id=RUN_ID, state="started", counts=COUNTS),
        RunListing(paths=RunPaths(Path("x")), run_id="x", state="unreadable", problem="run.json is not JSON"),
    ]
    assert to_text(show_runs(listings, where=".lab/runs")).splitlines() == [
        "run                                state        done  pass  fail  errors",
        "────────────────────────────────────────────────────────────────────────",
        "2026-05-29T12-38-43_math_Gprr29Mv  running     34/72    20    13       1",
        "x                                  unreadable",
        "",
        "x: run.json is not JSON",
    ]


def test_an_empty_directory_is_said_to_be_empty() -> None:
    assert to_text(show_runs([], where=".lab/runs")) == "no runs in .lab/runs\n"
    assert to_text(show_runs([], where=".lab/runs", sought="crashed")) == "no crashed runs in .lab/runs\n"


def test_a_run_whose_folder_was_renamed_is_listed_by_what_to_type_for_it() -> None:
    listing = RunListing(paths=RunPaths(Path("renamed")), run_id=RUN_ID, state="started", counts=COUNTS)
    assert to_text(show_runs([listing], where=".lab/runs")).splitlines()[2].startswith("renamed  running")
