import re

from labrunner.analysis.comparing.comparison import compare_all
from labrunner.analysis.comparing.power import estimate_pilots, layout_of, make_grid
from labrunner.display.results.compare import show_comparisons
from labrunner.display.results.power import show_power
from labrunner.experiment.resolved import DeclaredMetric
from tests.kit.analysis.arms import ERROR, make_arm
from tests.kit.display.printing import to_text

RIGHT: list[float | None] = [1.0]
WRONG: list[float | None] = [0.0]
LOST: list[float | None] = [ERROR]


def unwrapped(text: str) -> str:
    return " ".join(text.split())


def told_of(width: int = 110) -> str:
    before = dict.fromkeys((f"t{n}" for n in range(8)), WRONG) | {"t8": RIGHT, "t9": LOST, "t10": RIGHT}
    after = dict.fromkeys((f"t{n}" for n in range(8)), RIGHT) | {"t8": WRONG, "t9": RIGHT, "t10": RIGHT}
    again = {task: [task == "t0"] for task in after}
    found = compare_all([(make_arm("base", dict(before)), make_arm("new", dict(after), retried=again))])
    return to_text(show_comparisons(found, None), width)


def test_everything_to_judge_a_comparison_by_is_told() -> None:
    told = unwrapped(told_of())
    assert "new against base: better" in told
    assert (
        "On these 10 tasks new is better than base (p = 0.010). On tasks like these, new minus base in "
        in told
    )
    assert "tasks like these +0.700 (95% interval 0.2" in told
    assert "conclusion about tasks like these: better" in told
    assert "means base 0.200, new 0.900 (`solved`)" in told
    assert "p = 0.010; t over tasks" in told
    assert "tasks 10 tasks: 8 better, 1 alike, 1 worse" in told
    assert (
        "errors +0.636 to +0.727, however 1 errored trial had ended (11 tasks: also 1 task of which one"
        in told
    )
    assert "retries +0.600 to +0.700 with 1 retried trial scored for either side" in told
    assert "dropped 1 task: no graded trial of base (t9)" in told
    assert "better with new task before after a trial before, one after" in told
    assert "t8 1.000 0.000 t8.base.0-de738175bb t8.new.0-" in told


def test_the_interval_that_errors_leave_open_stands_beside_their_range() -> None:
    before = {f"t{n}": [10.0 + n, 11.0 + n] for n in range(9)}
    after: dict[str, list[float | None]] = {name: [5.0, 6.0] for name in before}
    after["t0"] = [5.0, ERROR]
    scale = DeclaredMetric(name="seconds", better="lower", min=0.0, max=60.0)
    arms = [
        make_arm("base", dict(before), metric="seconds", declared=scale),
        make_arm("new", after, metric="seconds", declared=scale),
    ]
    (found,) = compare_all([(arms[0], arms[1])])
    assert found.conclusion == "undecided because of errors"
    assert found.errors is not None
    assert found.errors.low < found.errors.high < 0
    told = unwrapped(to_text(show_comparisons([found], None), 110))
    assert re.search(r"however 1 errored trial had ended; its interval is then within -\d+\.\d+ to \d", told)


def test_it_keeps_within_80_columns() -> None:
    assert max(map(len, told_of(80).splitlines())) <= 80


def test_several_comparisons_say_how_they_were_adjusted() -> None:
    base = make_arm("base", {f"t{n}": [0.0] for n in range(8)})
    others = [make_arm(name, {f"t{n}": [1.0] for n in range(8)}) for name in ("b", "c")]
    told = unwrapped(to_text(show_comparisons(compare_all([(base, other) for other in others]), None), 110))
    assert "(97.5% interval 0.156 to 1.000), p = 0.016 after Holm over 2; sign-flip over tasks" in told
    assert "b minus base in mean `solved`: +1.000 (97.5% interval 0." in told


def test_a_difference_outside_its_range_of_errors_is_explained() -> None:
    before = {f"t{n}": [0.0] for n in range(8)} | {f"e{n}": [1.0] for n in range(8)}
    after = {f"t{n}": [1.0] for n in range(8)} | {f"e{n}": [None] for n in range(8)}
    found = compare_all([(make_arm("base", dict(before)), make_arm("new", dict(after)))])
    told = unwrapped(to_text(show_comparisons(found, None), 110))
    assert (
        "errors +0.000 to +0.500, however 8 errored trials had ended (16 tasks: also 8 tasks of which one"
        in told
    )
    assert "side has no grade, so the difference above may lie outside)" in told


def test_a_grid_of_detectable_differences_is_shown_with_the_plans_own() -> None:
    arms = [
        make_arm(name, {f"t{n}": [float((n + s) % 2), 1.0] for n in range(20)}) for s, name in enumerate("ab")
    ]
    layout = layout_of([None] * 30)
    grids = [make_grid(pilot, layout, replications=4, detect=0.1) for pilot in estimate_pilots(arms)]
    told = to_text(show_power(grids))
    assert "K = 1  K = 3  K = 4  K = 5  K = 10" in told
    assert "this plan, 30 tasks x 4: 0.1" in told
    assert "for the pilot is itself only a sample" in unwrapped(told)
    assert "to show a true difference of 0.1 4 times out of 5, with both variants:" in told


def test_a_plan_that_can_show_nothing_says_so() -> None:
    arms = [
        make_arm(name, {f"t{n}": [float((n + s) % 2), 1.0] for n in range(20)}) for s, name in enumerate("ab")
    ]
    grids = [make_grid(pilot, layout_of([None] * 5), replications=4) for pilot in estimate_pilots(arms)]
    assert "this plan, 5 tasks x 4: too few to speak of other tasks; it takes 6" in to_text(show_power(grids))


def test_a_pilot_without_spread_says_so_and_not_that_nothing_would_be_shown() -> None:
    arms = [make_arm(name, {f"t{n}": [7.0, 7.0] for n in range(8)}, metric="seconds") for name in "ab"]
    grids = [make_grid(pilot, layout_of([None] * 20), replications=2) for pilot in estimate_pilots(arms)]
    told = unwrapped(to_text(show_power(grids)))
    assert "this plan, 20 tasks x 2: unknown, since the pilot's scores did not differ" in told
    assert "no difference on this scale" not in told


def test_one_task_is_not_many() -> None:
    arms = [make_arm(name, {"t0": [score, 1.0, score]}) for name, score in (("a", 0.0), ("b", 1.0))]
    told = unwrapped(to_text(show_comparisons(compare_all([(arms[0], arms[1])]), None)))
    assert "no answer from 1 task conclusion" in told


def test_a_pilot_that_can_tell_nothing_says_so() -> None:
    assert "the pilot can't tell" in to_text(show_power([]))
