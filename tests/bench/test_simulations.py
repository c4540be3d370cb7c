"""The short form of `scripts/simulate`: bounds that fail when the statistics stop keeping their promises."""

import pytest

from bench.simulation.__main__ import main, simulate
from bench.simulation.catalogue import CATALOGUE, REPEATED, Study, find
from bench.simulation.limits import FEW, count_pairs, count_t, least_held, rules_within, worst_flips
from bench.simulation.populations import PAIRS
from bench.simulation.tables import BEGIN, BEGIN_LIMITS, END, PAGE, render, render_limits

NOTHING = dict.fromkeys(
    (
        *REPEATED,
        "coverage",
        "cr2",
        "shown",
        "here",
        "t",
        "lost",
        "promised",
        "rate",
        "odds",
        "told",
        "held",
        "odd",
        "cost",
        "scores",
        "misled",
    ),
    0.0,
)


@pytest.mark.parametrize("study", CATALOGUE, ids=lambda study: study.name)
def test_what_the_statistics_promise_holds(study: Study) -> None:
    broken = [
        sentence
        for setting in study.quick
        for sentence in study.broken(
            setting, simulate((study.name, setting, study.quick_runs)), study.quick_runs
        )
    ]
    assert broken == []


def test_a_bound_that_does_not_hold_is_told() -> None:
    study = find("mean")
    assert study.broken((10, 1, "alike", 0.5), {"coverage": 0.95}, 1_000) == []
    (told,) = study.broken((10, 1, "alike", 0.5), {"coverage": 0.85}, 1_000)
    assert told == "mean (10, 1, 'alike', 0.5): coverage is 0.8500, not within 0.93 to 1.0"


def test_an_interval_that_ends_too_soon_near_1_breaks_a_bound_of_the_short_form() -> None:
    study, setting = find("mean"), (20, 1, "alike", 0.993)
    assert setting in study.quick
    # Wilson's alone holds this rate only where nothing failed.
    assert study.broken(setting, {"coverage": 0.993**20}, study.quick_runs)
    assert not study.broken(setting, simulate(("mean", setting, study.quick_runs)), study.quick_runs)


def test_the_same_setting_draws_the_same_runs() -> None:
    job = ("mean", (10, 3, "u-shaped", 0.9), 50)
    assert simulate(job) == simulate(job)


def test_a_study_can_be_asked_for_alone(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["power"]) == 0
    assert "3 settings, 0 bounds broken" in capsys.readouterr().out


def test_the_page_shows_the_tables_of_the_long_form() -> None:
    shown = PAGE.read_text("utf-8").partition(BEGIN)[2].partition(END)[0]
    nothing = [(study.name, setting, NOTHING) for study in CATALOGUE for setting in study.long]
    for line in render(nothing).splitlines():
        what = line.partition(" | ")[0] if line.startswith("|") else line
        assert what in shown, what


def test_the_page_shows_what_was_counted() -> None:
    shown = PAGE.read_text("utf-8").partition(BEGIN_LIMITS)[2].partition(END)[0]
    assert shown.strip() == render_limits()


@pytest.mark.parametrize("tasks", FEW)
@pytest.mark.parametrize("trials", [1, 2, 3, 5])
def test_few_tasks_keep_false_alarms_and_power_counted_outcome_by_outcome(tasks: int, trials: int) -> None:
    found = count_pairs(tasks, trials)
    assert found["shown"] <= 0.055
    assert found["lost"] <= (0.065 if trials == 2 else 0.05)


def test_what_is_counted_is_what_is_drawn() -> None:
    drawn = [simulate(("no difference", (7, 3, kind), 20_000)) for kind in PAIRS]
    counted = count_pairs(7, 3)
    for name in ("shown", "t"):
        assert counted[name] == pytest.approx(max(each[name] for each in drawn), abs=0.005)


def test_no_rule_for_six_or_seven_tasks_of_one_trial_alarms_as_often_where_few_flip_as_where_many_do() -> (
    None
):
    assert [rules_within(tasks, (0.5, 0.18), 0.03, 0.07) for tasks in (6, 7)] == [(4_096, 0), (65_536, 0)]
    # One that only has to keep to each of them is easily found.
    assert all(rules_within(6, (share,), 0.03, 0.07)[1] for share in (0.5, 0.18))


def test_coins_alarm_most_where_all_of_thirteen_flip() -> None:
    worst = {tasks: worst_flips(tasks)[0] for tasks in range(6, 21)}
    assert max(worst, key=lambda tasks: worst[tasks]) == 13
    assert worst[13] == pytest.approx(2 * 378 / 8192)


def test_coins_that_are_not_fair_are_held_as_often_as_the_page_says() -> None:
    # Nearly clean sweeps: without the floor of a sweep these are held 84% and 88% of the time.
    assert least_held(6, 1.0)[0] >= 0.96
    assert least_held(12, 0.8)[0] >= 0.925
    assert least_held(10, 1.0) == pytest.approx((0.888, 0.65), abs=0.001)


def test_ten_tasks_and_more_keep_false_alarms_counted_outcome_by_outcome() -> None:
    for tasks, trials in ((10, 1), (10, 3), (20, 2), (50, 1), (50, 3)):
        assert count_t(tasks, trials) <= 0.055
    # With so few it is what `count_pairs` counts of plain t; and from ten on ours shows the same.
    assert count_t(7, 3) == pytest.approx(count_pairs(7, 3)["t"], abs=1e-9)
    ten = count_pairs(10, 1)
    assert ten["shown"] == pytest.approx(count_t(10, 1), abs=1e-9) == pytest.approx(ten["t"], abs=1e-9)
