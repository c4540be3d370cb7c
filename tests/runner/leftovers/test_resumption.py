"""What becomes of attempts that the last sitting left under way."""

import msgspec
import pytest

from labrunner.errors import DamagedRun
from labrunner.records.barrier import BarrierNote
from labrunner.records.completion import PhaseFact
from labrunner.runner.leftovers.resumption import Situation, plan_resumption
from labrunner.sandbox.door import Survivor, SurvivorPhase
from labrunner.store.buffering.attempts import AttemptNote

HERE = "this-boot"
ENDED = msgspec.json.encode(BarrierNote(agent=PhaseFact(exit_status=0), boot_id=HERE))


def note(*, barrier: bytes | None = ENDED, grader_started: bool = False) -> AttemptNote:
    return AttemptNote(
        token="t",
        schedule_idx=0,
        trial_id="a.baseline.0",
        attempt=1,
        state="grading" if grader_started else "barrier" if barrier else "dispatched",
        barrier=barrier,
        grader_started=grader_started,
    )


def takes_up(
    found: AttemptNote, survivors: tuple[Survivor, ...] = (), *, has_rebooted: bool = False, **situation: bool
) -> bool:
    known = {"outlives_runner": False, "repeatable_grader": False, **situation}
    look = Situation(**known, has_rebooted=has_rebooted, boot_id=HERE)
    resumption = plan_resumption((), (found,), survivors, lambda note: look)
    assert len(resumption.adoptions) + len(resumption.cut_off) == 1
    return bool(resumption.adoptions)


def test_an_agent_that_had_ended_is_graded() -> None:
    assert takes_up(note())


def test_an_agent_that_had_not_ended_is_cut_off() -> None:
    assert not takes_up(note(barrier=None))


@pytest.mark.parametrize("repeatable", [False, True])
def test_a_workspace_that_a_grader_has_seen_is_graded_again_only_if_it_may(repeatable: bool) -> None:
    assert takes_up(note(grader_started=True), repeatable_grader=repeatable) is repeatable


def test_what_nobody_synced_is_not_graded_after_a_power_cut() -> None:
    assert not takes_up(note(), has_rebooted=True)


@pytest.mark.parametrize("boot", ["an-earlier-boot", ""])
def test_what_an_earlier_boot_left_is_not_graded_whoever_owned_the_run_since(boot: str) -> None:
    ended = msgspec.json.encode(BarrierNote(agent=PhaseFact(exit_status=0), boot_id=boot))
    assert not takes_up(note(barrier=ended))
    assert not takes_up(note(barrier=ended, grader_started=True), repeatable_grader=True)


@pytest.mark.parametrize("has_rebooted", [False, True])
def test_a_container_synced_what_its_agent_left_and_is_taken_up_in_any_case(has_rebooted: bool) -> None:
    left = Survivor(token="t", trial_id="a.baseline.0", attempt=1, phase="barrier", is_alive=False)
    assert takes_up(note(), (left,), outlives_runner=True, has_rebooted=has_rebooted)


@pytest.mark.parametrize("repeatable", [False, True])
def test_a_container_may_have_forgotten_its_grader_in_a_power_cut(repeatable: bool) -> None:
    left = Survivor(token="t", trial_id="a.baseline.0", attempt=1, phase="barrier", is_alive=False)
    started = note(grader_started=True)
    known = {"outlives_runner": True, "repeatable_grader": repeatable}
    assert takes_up(started, (left,), has_rebooted=True, **known) is repeatable


def test_a_container_that_is_gone_is_cut_off() -> None:
    assert not takes_up(note(), outlives_runner=True)


def test_a_damaged_note_of_an_attempt_s_end_is_told_as_damage() -> None:
    with pytest.raises(DamagedRun, match=r"attempt 1 of a\.baseline\.0 ended, from the buffer: .*lab retry"):
        takes_up(note(barrier=b"{"))


ELSEWHERE = msgspec.json.encode(BarrierNote(agent=PhaseFact(exit_status=0), boot_id=HERE, node="n1"))


def standing(phase: SurvivorPhase, *, is_alive: bool) -> tuple[Survivor, ...]:
    return (Survivor(token="t", trial_id="a.baseline.0", attempt=1, phase=phase, is_alive=is_alive),)


@pytest.mark.parametrize("repeatable", [False, True])
def test_what_an_agent_left_on_a_node_is_not_looked_for_here(repeatable: bool) -> None:
    assert not takes_up(note(barrier=ELSEWHERE), repeatable_grader=repeatable)


def test_what_a_node_says_it_has_is_taken_up_whatever_was_started_again_here() -> None:
    found = note(barrier=ELSEWHERE)
    assert takes_up(found, standing("barrier", is_alive=False), has_rebooted=True)
    started = note(barrier=ELSEWHERE, grader_started=True)
    assert takes_up(started, standing("grader", is_alive=True), has_rebooted=True)
    assert not takes_up(started, standing("grader", is_alive=False))
