"""Figures that are made while pages go on."""

import threading
import time
from pathlib import Path

import pytest

from labrunner.errors import DamagedRun
from labrunner.runner.reports.lookup import RunPicture, picture
from labrunner.view.seen.figuring import FIRST_REST_S, Figuring
from labrunner.view.seen.lookout import Lookout, Unfigured
from labrunner.view.seen.runsight import see_run
from labrunner.view.seen.soundness import Quiet
from tests.kit.made_runs import Told, make_grid, write_run

ONE, OTHER = ((1, 1),), ((2, 2),)


@pytest.fixture
def made(tmp_path: Path) -> RunPicture:
    return picture(write_run(tmp_path, make_grid(), lambda _: Told()))


def test_who_is_in_a_hurry_gets_nothing_until_figures_are_there(made: RunPicture) -> None:
    may_go = threading.Event()

    def make() -> RunPicture:
        assert may_go.wait(30)
        return made

    figures = Figuring(make)
    assert figures.ask(ONE, is_live=False, within_s=0.01) is None
    before = figures.rounds
    may_go.set()
    assert figures.ask(ONE, is_live=False, within_s=None) is made
    assert figures.rounds == before + 1


def test_a_state_is_figured_once_and_a_live_run_rests_in_between(made: RunPicture) -> None:
    figures = Figuring(lambda: made)
    for _ in range(3):
        figures.ask(ONE, is_live=True, within_s=None)
    assert figures.rounds == 1
    figures._rests_until = float("inf")
    figures.ask(OTHER, is_live=True, within_s=None)
    assert figures.rounds == 1
    figures.ask(OTHER, is_live=False, within_s=None)  # it is over: now they are needed
    assert figures.rounds == 2


def test_a_live_run_rests_by_what_its_figures_cost_and_not_by_how_long_they_waited(made: RunPicture) -> None:
    def wait() -> None:
        threading.Event().wait(0.3)

    def compute() -> None:
        until = time.thread_time() + 0.2
        while time.thread_time() < until:
            pass

    rests = []
    for work in (wait, compute):
        works = iter((compute, work))
        figures = Figuring(lambda works=works: (next(works)(), made)[1])  # type: ignore[misc] # bound here
        figures.ask(ONE, is_live=True, within_s=None)
        assert figures._rests_until - time.monotonic() <= FIRST_REST_S
        figures.ask(OTHER, is_live=False, within_s=None)
        rests.append(figures._rests_until - time.monotonic())
    assert rests[0] < 1 < rests[1]


def test_what_went_wrong_is_told_each_time_and_looked_at_again_when_something_changes() -> None:
    def make() -> RunPicture:
        raise DamagedRun("torn")

    figures = Figuring(make)
    for sign, rounds in ((ONE, 1), (ONE, 1), (OTHER, 2)):
        with pytest.raises(DamagedRun, match="torn"):
            figures.ask(sign, is_live=False, within_s=None)
        assert figures.rounds == rounds


def test_a_page_is_told_what_there_is_while_figures_are_made(tmp_path: Path, made: RunPicture) -> None:
    waiting = Unfigured(
        paths=made.paths, record=made.record, state=made.state, status=made.status, summary=None
    )
    told = see_run(waiting)
    assert (told["is_figuring"], told["summary"], told["planned"]) == (True, None, 8)
    whole = see_run(Lookout(tmp_path).picture(made.paths.root.name))
    assert "is_figuring" not in whole
    assert whole["summary"] is not None


def test_what_is_done_in_the_background_waits_for_people_but_not_for_ever() -> None:
    quiet = Quiet()
    waited = threading.Event()

    def work() -> None:
        quiet.wait()
        waited.set()

    with quiet.answering():
        threading.Thread(target=work, daemon=True).start()
        assert not waited.wait(0.3)
    assert waited.wait(10)
    with quiet.answering():
        quiet.wait()
