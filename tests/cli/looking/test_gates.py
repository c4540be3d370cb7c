"""`--require` on runs, as people call it: what is printed and what is judged is the same."""

import json
from pathlib import Path

import pytest

from labrunner.experiment.schedule import Slot
from tests.kit.cli.calling import lab, write_experiment
from tests.kit.made_runs import Told, make_grid, write_run

SOLVED = {"a": 2, "b": 8, "c": 3}
"""Tasks that each solves, of twelve."""


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("three")
    grid = make_grid(tasks=12, variants=tuple(SOLVED), replications=1)

    def script(slot: Slot) -> Told:
        name = tuple(SOLVED)[slot.variant_idx]
        return Told(value=float(slot.task_idx < SOLVED[name]))

    write_run(folder / ".lab" / "runs", grid, script)
    return folder


def conclusions(told: dict[str, object], command: str) -> dict[tuple[str, str], tuple[str, int]]:
    found = json.loads(json.dumps(told))
    compared = found["comparisons"] if command == "compare" else found["summary"]["ext"]["comparisons"]
    return {(each["baseline"], each["other"]): (each["conclusion"], each["family"]) for each in compared}


@pytest.mark.parametrize("command", ["show", "compare"])
@pytest.mark.parametrize("asked", ["b > c", "c < b", "c > b"])
def test_a_pair_that_is_required_is_shown_in_the_family_that_judges_it(
    three: Path, command: str, asked: str
) -> None:
    plain = lab(command, "made", "--json", cwd=three).json()
    assert set(conclusions(plain, command)) == {("a", "b"), ("a", "c")}
    answer = lab(command, "made", "--json", "--require", asked, cwd=three)
    found = conclusions(answer.json(), command)
    assert {family for _, family in found.values()} == {3}
    (pair,) = set(found) - {("a", "b"), ("a", "c")}
    assert set(pair) == {"b", "c"}
    better = {"better": pair[1], "worse": pair[0]}.get(found[pair][0])
    wanted = "c" if asked == "c > b" else "b"
    assert bool(answer.json()["unmet"]) == (better != wanted)
    assert answer.code == (4 if better != wanted else 0)


def test_the_table_of_show_names_both_sides_where_baselines_differ(three: Path) -> None:
    told = lab("show", "made", "--require", "b > c", cwd=three).out
    assert "b against c" in told
    assert "adjusted for 3 comparisons" in told


def test_a_baseline_that_would_change_the_family_is_refused(three: Path) -> None:
    refused = lab("compare", "made", "--baseline", "b", "--require", "b > c", cwd=three)
    assert refused.code == 2
    assert "--baseline: 'b' would change which comparisons --require is judged among" in refused.err
    assert lab("compare", "made", "--baseline", "b", cwd=three).code == 0


@pytest.mark.parametrize("asked", ["b >= a - 5", "a ~ b within 5", "pass >= 90"])
def test_what_the_scale_has_no_room_for_is_bad_input(three: Path, asked: str) -> None:
    for command in ("show", "compare"):
        refused = lab(command, "made", "--require", asked, cwd=three)
        assert refused.code == 2
        assert f"--require: '{asked}'" in refused.err


def test_a_limit_that_can_not_be_is_refused_before_a_run(tmp_path: Path) -> None:
    write_experiment(tmp_path)
    refused = lab("run", "--run-id", "never", "--require", "pass >= 90", cwd=tmp_path)
    assert refused.code == 2
    assert "pass lies between 0 and 1" in refused.err
    assert not (tmp_path / ".lab" / "runs" / "never").exists()


def test_a_run_shows_the_pairs_that_it_is_held_to(tmp_path: Path) -> None:
    write_experiment(tmp_path, tasks=2, extra="variants: [{id: a}, {id: b}, {id: c}]\n")
    done = lab("run", "--require", "c ~ b within 0.5", "--fail-on-error=false", cwd=tmp_path)
    assert done.code == 4, done.err
    assert "c against b" in done.out
    assert "adjusted for 3 comparisons" in done.out
    assert "not met: c ~ b within 0.5: not enough data: 2 tasks are too few to speak of others" in done.err
    alone = lab("run", "--require", "c ~ b within 5", cwd=tmp_path)
    assert alone.code == 2
    assert "trials finished" in alone.out
    assert "'c ~ b within 5': differences of `pass` are at most 1" in alone.err


def test_a_run_tells_programs_what_it_does_not_meet_and_what_to_know_beside_it(tmp_path: Path) -> None:
    write_experiment(tmp_path)
    words = ("run", "--json", "--require", "pass >= 0.99", "--require", "errors <= 1")
    judged = lab(*words, cwd=tmp_path)
    (told,) = judged.json()["unmet"]
    assert (judged.code, told.partition(":")[0]) == (4, "pass >= 0.99")
    assert f"not met: {told}" in judged.err
    assert judged.json()["notes"] == []
    # What nothing was required of was not judged: that is not the same as met.
    assert "unmet" not in lab("run", "--json", cwd=tmp_path).json()


def test_marked_trials_are_counted_bounded_and_named_with_their_reasons(tmp_path: Path) -> None:
    grid = make_grid(tasks=10, variants=("a", "b"), replications=2)
    write_run(
        tmp_path / ".lab" / "runs",
        grid,
        lambda slot: Told(value=float(slot.task_idx < 5 or slot.variant_idx)),
    )
    where = "variant_id = 'a' AND verdict = 'fail' AND repl_idx = 0"
    assert (
        lab("invalidate", "made", "--where", where, "--reason", "its answer was wrong", cwd=tmp_path).code
        == 0
    )
    shown = lab("show", "made", cwd=tmp_path)
    told = " ".join(shown.out.split())
    assert "all 40 trials finished" in told
    assert "5 of them marked as not to be used" in told
    assert "a: 5 trials marked as not to be used, left out of all but the bounds; with them the mean" in told
    assert "would be 0.500" in told
    assert 'why: "its answer was wrong" (5)' in told
    figures = lab("show", "made", "--json", cwd=tmp_path).json()["summary"]["ext"]["figures"]["a"]
    assert (figures["lower"], figures["observed"], figures["upper"]) == (0.5, 0.5, 0.75)
    assert figures["marks"][0]["reason"] == "its answer was wrong"
    trial = figures["marks"][0]["first"]
    page = lab("show", "made", trial, cwd=tmp_path).out
    assert "marked as not to be used by" in page
    assert "its answer was wrong" in page
    assert lab("show", "made", trial, "--json", cwd=tmp_path).json()["invalidated"]["reason"] == (
        "its answer was wrong"
    )
    gate = lab("compare", "made", "--require", "b > a", cwd=tmp_path)
    assert gate.code == 0
    assert "note: a: 5 trials marked as not to be used" in gate.err
    assert "5 trials are left out, marked as not to be used; with them the difference would be +0.500." in (
        " ".join(gate.out.split())
    )
