from pathlib import Path

from labrunner.analysis.judging.cautions import INTERIM
from labrunner.analysis.judging.requirements import parse_requirements
from labrunner.experiment.schedule import Slot
from labrunner.records.cause import Cause
from labrunner.records.encoding.ids import make_trial_id
from labrunner.runner.reports.comparing import Contest, compare_runs
from labrunner.runner.reports.results import judge_run
from labrunner.store.rows.lock import acquire
from tests.kit.made_runs import Told, make_grid, mark, write_run

LOST = Told(value=None, errors=(Cause.SANDBOX,))


def retry_the_second_variant(slot: Slot) -> Told:
    again = (Cause.PROVIDER,) * (slot.variant_idx == 1)
    return Told(value=float(slot.task_idx % 2), errors=again)


def compare(folder: Path, *names: str, baseline: str | None = None) -> Contest:
    grid = make_grid(tasks=16, variants=("base", "new"))
    runs = [write_run(folder, grid, retry_the_second_variant, run_id=name) for name in names]
    return compare_runs(runs, baseline=baseline)


def rates(contest: Contest) -> dict[str, tuple[str | None, bool]]:
    """What each variant's retry rate was compared with, and whether it differs."""
    assert contest.retry_shift is not None
    return {
        each.variant_id: (each.rate_baseline, each.rate_p is not None and each.rate_p < 0.05)
        for each in contest.retry_shift.variants
    }


def test_retry_rates_of_a_runs_variants_are_compared_with_the_first(tmp_path: Path) -> None:
    assert rates(compare(tmp_path, "r_1")) == {"base": (None, False), "new": ("base", True)}


def test_retry_rates_are_compared_with_the_baseline_that_was_chosen(tmp_path: Path) -> None:
    found = rates(compare(tmp_path, "r_1", baseline="new"))
    assert found == {"base": ("new", True), "new": (None, False)}


def test_retry_rates_of_runs_are_compared_variant_by_variant_like_their_scores(tmp_path: Path) -> None:
    contest = compare(tmp_path, "r_1", "r_2")
    assert rates(contest) == {
        "r_1:base": (None, False),
        "r_1:new": (None, False),
        "r_2:base": ("r_1:base", False),
        "r_2:new": ("r_1:new", False),
    }
    assert [(one.baseline, one.other) for one in contest.comparisons] == [
        ("r_1:base", "r_2:base"),
        ("r_1:new", "r_2:new"),
    ]


def test_trials_that_were_marked_are_told_beside_the_comparison(tmp_path: Path) -> None:
    grid = make_grid(tasks=16, variants=("base", "new"))
    paths = write_run(tmp_path, grid, retry_the_second_variant, run_id="r_1")
    mark(paths, make_trial_id("new", "t0", 0), 1)
    (told,) = [caution for _, caution in compare_runs([paths]).cautions if caution.kind == "invalidated"]
    assert str(told) == (
        "new: 1 trial marked as not to be used, left out of all but the bounds; with it the mean would be "
        '0.500; why: "x" (1)'
    )


def test_trials_and_tasks_that_are_missing_are_told_beside_the_comparison(tmp_path: Path) -> None:
    grid = make_grid(tasks=16, variants=("base", "new"))
    paths = write_run(tmp_path, grid, lambda slot: LOST if slot.task_idx < 3 and slot.variant_idx else Told())
    told = {caution.kind: str(caution) for _, caution in compare_runs([paths]).cautions}
    assert told["coverage"] == "new: only 81% of the planned trials are graded (13 of 16)"
    assert told["ungraded"].startswith("new: 3 tasks without any graded trial")


def test_a_comparison_of_a_run_that_goes_on_is_interim(tmp_path: Path) -> None:
    grid = make_grid(tasks=8, variants=("base", "new"))
    paths = write_run(
        tmp_path, grid, lambda slot: None if slot.schedule_idx > 11 else Told(), status="started"
    )
    asked = parse_requirements(["pass >= 0.5"])
    with acquire(paths):
        contest = compare_runs([paths], requirements=asked)
        assert [caution.kind for _, caution in contest.cautions] == ["interim"]
        assert contest.notes[-1] == judge_run(paths, asked).notes[-1] == INTERIM
    assert INTERIM not in compare_runs([paths], requirements=asked).notes
