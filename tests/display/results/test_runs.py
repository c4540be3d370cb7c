from dataclasses import replace
from pathlib import Path

from labrunner.display.results.runs import show_runs
from labrunner.records.run import Counts
from labrunner.store.layout import RunPaths
from labrunner.store.reading.glancing import Outcome
from labrunner.store.reading.listing import RunListing
from tests.kit.display.printing import to_text

RUN_ID = "2026-05-29T12-38-43_math_Gprr29Mv"
COUNTS = Counts(planned=72, committed=30, buffered=4, running=2, passed=20, failed=13, errors=1)
PATHS = RunPaths(Path(RUN_ID))
LISTING = RunListing(
    paths=PATHS,
    run_id=RUN_ID,
    state="started",
    counts=COUNTS,
    name="math",
    created_at="2026-05-29T12:38:43.123Z",
)
BROKEN = RunListing(paths=RunPaths(Path("x")), run_id="x", state="unreadable", problem="run.json is not JSON")


def test_each_run_has_a_line_and_an_unreadable_one_says_why() -> None:
    outcomes = {PATHS: Outcome(means=(("a", 0.5), ("b", None)), cost_usd=12.3456)}
    assert to_text(show_runs([LISTING, BROKEN], where=".lab/runs", outcomes=outcomes), 100).splitlines() == [
        "run                                state        done  pass  fail  errors     mean    cost",
        "\u2500" * 89,
        "2026-05-29T12-38-43_math_Gprr29Mv  running     34/72    20    13       1  0.500 -  $12.35",
        "x                                  unreadable",
        "",
        "x: run.json is not JSON",
    ]


def test_name_and_date_stand_where_an_id_does_not_tell_them() -> None:
    own = replace(LISTING, paths=RunPaths(Path("mine")), run_id="mine")
    first, _, *rows = to_text(show_runs([LISTING, own], where=".lab/runs"), 120).splitlines()
    assert first.split()[:4] == ["run", "name", "begun", "(UTC)"]
    assert rows[1].split()[:4] == ["mine", "math", "2026-05-29", "12:38"]


def test_an_empty_directory_is_said_to_be_empty() -> None:
    assert to_text(show_runs([], where=".lab/runs")) == "no runs in .lab/runs\n"
    assert to_text(show_runs([], where=".lab/runs", sought="crashed")) == "no crashed runs in .lab/runs\n"


def test_a_run_whose_folder_was_renamed_is_listed_by_what_to_type_for_it() -> None:
    listing = RunListing(paths=RunPaths(Path("renamed")), run_id=RUN_ID, state="started", counts=COUNTS)
    assert to_text(show_runs([listing], where=".lab/runs")).splitlines()[2].split()[:2] == [
        "renamed",
        "running",
    ]
