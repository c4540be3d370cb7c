"""The short form of `scripts/simulate`: bounds that fail when the statistics stop keeping their promises."""

import pytest

from bench.simulation.__main__ import main, simulate
from bench.simulation.catalogue import CATALOGUE, Study, find
from bench.simulation.tables import BEGIN, END, PAGE, render

NOTHING = dict.fromkeys(
    ("coverage", "any", "all", "shown", "here", "t", "lost", "promised", "rate", "odds", "told"), 0.0
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
