from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from labrunner.analysis.judging.requirements import parse_requirements
from labrunner.analysis.summary import read_report
from labrunner.errors import DamagedRun, InputError, StoreError
from labrunner.experiment.resolved import DeclaredMetric
from labrunner.experiment.schedule import Slot
from labrunner.records.cause import Cause
from labrunner.records.encoding import canonical
from labrunner.records.encoding.ids import make_trial_id
from labrunner.runner.reports.comparing import compare_runs, label_runs
from labrunner.runner.reports.lookup import picture
from labrunner.runner.reports.results import judge_run, read_results
from labrunner.runner.reports.summaries import read_summary, seal_summary
from labrunner.store.layout import RunPaths
from tests.kit.made_runs import Told, edit_status, make_grid, mark, write_run
from tests.kit.store.sample import make_status


def better(slot: Slot) -> Told:
    """The second variant solves everything, the first only every third task."""
    return Told(value=1.0 if slot.variant_idx else float(slot.task_idx % 3 == 0), usage={"cost_usd": 0.25})


def made(folder: Path, run_id: str = "made", *, variants: tuple[str, ...] = ("a", "b")) -> RunPaths:
    return write_run(folder, make_grid(tasks=12, variants=variants), better, run_id=run_id)


def test_the_summary_holds_figures_expenses_and_comparisons(tmp_path: Path) -> None:
    report = read_report(read_results(made(tmp_path)).summarise())
    assert [(each.variant_id, each.observed) for each in report.figures] == [
        ("a", pytest.approx(1 / 3)),
        ("b", 1.0),
    ]
    assert report.figures[0].expense["cost_usd"].total == 3.0
    (found,) = report.comparisons
    assert (found.baseline, found.other, found.conclusion) == ("a", "b", "better")


def test_buffered_results_count_and_invalidated_ones_do_not(tmp_path: Path) -> None:
    paths = write_run(
        tmp_path,
        make_grid(tasks=3, variants=("a",)),
        lambda slot: None if slot.schedule_idx == 0 else Told(value=float(slot.schedule_idx == 1)),
        status="cancelled",
    )
    trial_id = make_trial_id("a", "t2", 0)
    mark(paths, trial_id, 2, "x", times=2)
    (figures,) = read_report(read_results(paths).summarise()).figures
    assert (figures.graded, figures.invalidated, figures.missing, figures.observed) == (1, 1, 1, 1.0)
    assert figures.expense["time_s"].trials == 1


def test_a_picture_of_a_run_is_computed_from_its_files(tmp_path: Path) -> None:
    paths = made(tmp_path)
    assert not paths.summary.exists()
    seen = picture(paths)
    assert (seen.state, seen.summary.totals.trials) == ("success", 24)
    assert not paths.summary.exists()


def summary_written(paths: RunPaths) -> bytes:
    data = canonical.encode_line(read_results(paths).summarise())
    paths.summary.write_bytes(data)
    return data


def test_a_summary_that_still_holds_is_taken_as_written(tmp_path: Path) -> None:
    paths = made(tmp_path)
    summary_written(paths)
    paths.timings.write_bytes(b"")  # not looked at
    assert picture(paths).summary.totals.trials == 24


def test_a_summary_that_no_longer_holds_is_computed_anew(tmp_path: Path) -> None:
    paths = made(tmp_path)
    written = summary_written(paths)
    mark(paths, make_trial_id("a", "t0", 0), 0, "x")
    assert picture(paths).summary.totals.trials == 23
    paths.invalidations.unlink()
    paths.marks.unlink()
    lines = paths.commits.read_bytes().splitlines(keepends=True)
    paths.commits.write_bytes(b"".join(lines[:-4]))
    edit_status(paths, counts=make_status(24, committed=20).counts)
    assert picture(paths).summary.totals.trials == 20
    paths.commits.write_bytes(b"".join(lines))
    paths.summary.write_bytes(written.replace(b'"pass":16', b'"pass":99', 1))
    assert picture(paths).summary.totals.passed == 16


def test_results_that_wait_in_the_buffer_are_in_no_written_summary(tmp_path: Path) -> None:
    paths = write_run(
        tmp_path, make_grid(tasks=4, variants=("a",)), lambda slot: None if slot.schedule_idx == 2 else Told()
    )
    summary_written(paths)
    assert read_summary(paths) is None
    assert picture(paths).summary.totals.trials == 3


def test_requirements_are_checked_against_a_run(tmp_path: Path) -> None:
    paths = made(tmp_path)
    assert judge_run(paths, parse_requirements(["b > a", "b.pass >= 0.9"], coverage=1.0)).unmet == ()
    unmet = judge_run(paths, parse_requirements(["a > b", "pass >= 0.9"])).unmet
    assert [text.split(":")[0] for text in unmet] == ["a > b", "pass >= 0.9"]


def test_variants_of_one_run_are_compared_with_the_first(tmp_path: Path) -> None:
    found = compare_runs([made(tmp_path, variants=("a", "b", "c"))]).comparisons
    assert [(each.baseline, each.other) for each in found] == [("a", "b"), ("a", "c")]
    chosen = compare_runs([made(tmp_path, "again", variants=("a", "b", "c"))], baseline="c").comparisons
    assert [(each.baseline, each.other) for each in chosen] == [("c", "a"), ("c", "b")]


def test_runs_with_the_same_variants_are_compared_variant_by_variant(tmp_path: Path) -> None:
    runs = [made(tmp_path, "one"), made(tmp_path, "two"), made(tmp_path, "six")]
    found = compare_runs(runs).comparisons
    assert [(each.baseline, each.other) for each in found] == [
        ("one:a", "two:a"), ("one:b", "two:b"), ("one:a", "six:a"), ("one:b", "six:b"),
    ]  # fmt: skip
    assert {each.difference for each in found} == {0.0}


def test_runs_with_other_variants_are_all_compared_with_the_first(tmp_path: Path) -> None:
    runs = [made(tmp_path, "one", variants=("a",)), made(tmp_path, "two", variants=("b", "c"))]
    found = compare_runs(runs).comparisons
    assert [(each.baseline, each.other) for each in found] == [("one:a", "two:b"), ("one:a", "two:c")]


def test_what_can_not_be_compared_is_refused(tmp_path: Path) -> None:
    lone = made(tmp_path, "lone", variants=("a",))
    with pytest.raises(InputError, match=r"the run has one variant \(a\); name a second run"):
        compare_runs([lone])
    with pytest.raises(InputError, match="a run is named twice"):
        compare_runs([lone, lone])
    with pytest.raises(InputError, match="'x' fits none of: a, b"):
        compare_runs([made(tmp_path)], baseline="x")


def test_labels_tell_runs_apart() -> None:
    made = [f"2026-05-29T12-38-43_math_{end}" for end in ("Gprr29Mv", "aaaa29Mv")]
    assert label_runs(made) == ["Gprr29Mv", "aaaa29Mv"]
    assert label_runs(["before_the_fix", "after_the_move"]) == ["before_the_fix", "after_the_move"]
    assert label_runs(["x_same", "y_same"]) == ["x_same", "y_same"]


def test_requirements_over_runs_name_arms_by_their_labels(tmp_path: Path) -> None:
    runs = [made(tmp_path, "one", variants=("a",)), made(tmp_path, "two")]
    asked = parse_requirements(["two:b > one:a", "two:b.pass >= 0.9"])
    assert compare_runs(runs, requirements=asked).unmet == ()
    with pytest.raises(InputError, match="there are: one:a, two:a, two:b"):
        compare_runs(runs, requirements=parse_requirements(["b > a"]))


def test_what_is_required_and_what_is_shown_are_one_family(tmp_path: Path) -> None:
    paths = made(tmp_path, variants=("a", "b", "c"))
    asked = parse_requirements(["c > b"])
    contest, judged = compare_runs([paths], requirements=asked), judge_run(paths, asked)
    assert contest.unmet == judged.unmet
    for found in (contest.comparisons, read_report(judged.summary).comparisons):
        assert [(each.baseline, each.other) for each in found] == [("a", "b"), ("a", "c"), ("b", "c")]
        assert {each.family for each in found} == {3}


def test_a_baseline_may_not_change_what_a_requirement_is_judged_among(tmp_path: Path) -> None:
    two, three = made(tmp_path, "two"), made(tmp_path, "three", variants=("a", "b", "c"))
    asked = parse_requirements(["b > a"])
    with pytest.raises(InputError, match="'b' would change which comparisons --require is judged among"):
        compare_runs([three], baseline="b", requirements=asked)
    turned = compare_runs([two], baseline="b", requirements=asked)
    assert turned.unmet == compare_runs([two], requirements=asked).unmet == ()
    assert compare_runs([three], baseline="b", requirements=parse_requirements(["pass >= 0.1"])).unmet == ()


def test_runs_that_do_not_agree_what_is_better_are_not_compared(tmp_path: Path) -> None:
    def run_of(run_id: str, metric: DeclaredMetric | None) -> RunPaths:
        plain = make_grid(tasks=8, variants=("a",))
        tasks = tuple(replace(task, grader=replace(task.grader, metric=metric)) for task in plain.tasks)
        seconds = {"old": 40.0, "new": 20.0, "far": 10.0}[run_id]
        return write_run(
            tmp_path,
            replace(plain, tasks=tasks),
            lambda slot: Told(value=seconds + slot.task_idx, metric="seconds"),
            run_id=run_id,
        )

    lower = DeclaredMetric(name="seconds", better="lower")
    old, new, far = run_of("old", None), run_of("new", lower), run_of("far", replace(lower, min=0.0))
    with pytest.raises(InputError, match="comparing new:a with old:a: it is not known which way `seconds`"):
        compare_runs([old, new])
    (found,) = compare_runs([new, far]).comparisons
    assert (found.better, found.conclusion) == ("lower", "better")


def test_retry_rates_are_compared_over_all_arms(tmp_path: Path) -> None:
    calm = write_run(tmp_path, make_grid(tasks=40, variants=("a",)), better, run_id="calm")
    wild = write_run(
        tmp_path,
        make_grid(tasks=40, variants=("a",)),
        lambda slot: Told(value=float(slot.task_idx % 2), errors=(Cause.PROVIDER,) * (slot.task_idx < 12)),
        run_id="wild",
    )
    shift = compare_runs([calm, wild]).retry_shift
    assert shift is not None
    assert [each.variant_id for each in shift.variants] == ["calm:a", "wild:a"]
    assert shift.answer == "not bounded"


def test_a_summary_that_another_build_shaped_is_made_anew(tmp_path: Path) -> None:
    paths = made(tmp_path)
    sound = read_results(paths).summarise()
    figures = {name: {"foreign": 1} for name in sound.ext["figures"]}
    ext = {name: value for name, value in sound.ext.items() if name != "seal"} | {"figures": figures}
    foreign = seal_summary(msgspec.structs.replace(sound, ext=ext), sound.ext["basis"])
    paths.summary.write_bytes(canonical.encode_line(sound))
    assert read_summary(paths) is not None
    paths.summary.write_bytes(canonical.encode_line(foreign))
    assert read_summary(paths) is None
    assert read_report(picture(paths).summary).figures


def test_marks_that_are_no_file_are_told_and_no_summary_of_before_them_is_shown(tmp_path: Path) -> None:
    paths = made(tmp_path)
    summary_written(paths)
    mark(paths, make_trial_id("a", "t0", 0), 0, "x")
    paths.invalidations.unlink()
    with pytest.raises(DamagedRun, match="marks are lost"):
        picture(paths)
    paths.invalidations.mkdir()
    for read in (picture, read_results):
        with pytest.raises(StoreError, match="is a directory"):
            read(paths)
