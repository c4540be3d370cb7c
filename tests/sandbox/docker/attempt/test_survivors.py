import dataclasses

import pytest

from labrunner.sandbox.docker.attempt.container import make_nonce
from labrunner.sandbox.docker.attempt.survivors import judge_after_reboot, judge_phase
from labrunner.sandbox.docker.engine.labels import Tag, has_rebooted
from labrunner.sandbox.docker.engine.replies import ContainerState
from labrunner.sandbox.docker.watching.sightings import BarrierRecord
from labrunner.sandbox.docker.wrapper.notes import Note
from labrunner.sandbox.door import AgentRun, PhaseEnd, Survivor, SurvivorPhase

ALIVE = ContainerState(
    status="running",
    exit_code=0,
    oom_killed=False,
    pid=7,
    error="",
    started_at=1.0,
    labels={},
    image="sha256:0",
    networks=frozenset(),
    upper_dir=None,
    volumes=(),
    mounts={},
)
DEAD = dataclasses.replace(ALIVE, status="ended", exit_code=137)
CREATED = dataclasses.replace(ALIVE, status="created")
OOM = dataclasses.replace(DEAD, oom_killed=True)
ENDED = BarrierRecord(run=AgentRun(setup=None, agent=PhaseEnd(exit_status=0)))
KILLED = BarrierRecord(run=AgentRun(setup=None, agent=PhaseEnd(exit_status=None), wrapper_killed=True))
NO_AGENT = BarrierRecord(run=AgentRun(setup=PhaseEnd(exit_status=1), agent=None))


def opening(phase: str) -> Note:
    return Note(phase=phase)


def certain(phase: str, tries: int = 0) -> Note:
    return Note(phase=phase, is_certain=True, facts={"try": str(tries)} if tries else {})


@pytest.mark.parametrize(
    ("state", "note", "record", "phase", "tries"),
    [
        (CREATED, opening("none"), None, "not_begun", 0),
        (ALIVE, opening("none"), None, "not_begun", 0),
        (DEAD, opening("none"), None, "not_begun", 0),
        (ALIVE, opening("setup"), None, "setup", 0),
        (ALIVE, opening("gate"), None, "setup", 0),
        (ALIVE, opening("agent"), None, "agent", 0),
        (DEAD, opening("setup"), None, "died", 0),
        (DEAD, opening("agent"), None, "died", 0),
        (OOM, opening("agent"), None, "agent", 0),
        (ALIVE, certain("barrier"), None, "barrier", 0),
        (DEAD, certain("barrier"), None, "barrier", 0),
        (DEAD, certain("failed"), None, "exited", 0),
        (ALIVE, certain("barrier"), ENDED, "barrier", 0),
        (DEAD, opening("agent"), ENDED, "barrier", 0),
        (ALIVE, opening("agent"), ENDED, "barrier", 0),
        (DEAD, opening("agent"), KILLED, "exited", 0),
        (DEAD, opening("setup"), NO_AGENT, "exited", 0),
        (ALIVE, certain("grader", 1), ENDED, "grader", 1),
        (DEAD, certain("grader", 1), ENDED, "grader", 0),
        (ALIVE, certain("graded", 2), ENDED, "exited", 2),
        (DEAD, certain("graded", 1), ENDED, "exited", 1),
    ],
)
def test_how_far_an_attempt_has_come(
    state: ContainerState, note: Note, record: BarrierRecord | None, phase: SurvivorPhase, tries: int
) -> None:
    assert judge_phase(state, note, record) == (phase, tries)


@pytest.mark.parametrize(
    ("before", "note", "record", "after"),
    [
        ("not_begun", opening("none"), None, "not_begun"),
        ("barrier", certain("barrier"), None, "died"),
        ("exited", certain("failed"), None, "died"),
        ("barrier", certain("barrier"), ENDED, "barrier"),
        ("exited", opening("agent"), KILLED, "exited"),
        ("grader", certain("grader", 1), ENDED, "grader"),
        ("exited", certain("graded", 1), ENDED, "grader"),
    ],
)
def test_after_a_reboot_only_what_was_synced_counts(
    before: SurvivorPhase, note: Note, record: BarrierRecord | None, after: SurvivorPhase
) -> None:
    assert judge_after_reboot(before, note, record) == (after, 0)


def test_a_container_of_an_earlier_boot_is_known_by_its_label() -> None:
    labels = Tag(mark=None, nonce="n", role="attempt", expires_at=1, expiry_s=1).labels()
    assert not has_rebooted(labels)
    assert has_rebooted(
        {name: "earlier" if name.endswith("boot") else value for name, value in labels.items()}
    )
    assert not has_rebooted({})


@pytest.mark.parametrize(
    ("phase", "is_alive", "repeatable", "adoptable"),
    [
        ("not_begun", True, True, False),
        ("setup", True, False, True),
        ("agent", True, False, True),
        ("barrier", True, False, True),
        ("barrier", False, False, True),
        ("grader", True, False, True),
        ("grader", False, False, False),
        ("grader", False, True, True),
        ("exited", False, False, True),
        ("died", False, True, False),
    ],
)
def test_which_survivors_can_be_adopted(
    phase: SurvivorPhase, is_alive: bool, repeatable: bool, adoptable: bool
) -> None:
    survivor = Survivor(token="t", trial_id="t", attempt=1, phase=phase, is_alive=is_alive)
    assert survivor.is_adoptable(repeatable_grader=repeatable) == adoptable


def test_each_start_of_a_container_has_a_nonce_of_its_own() -> None:
    nonces = [make_nonce("first", number) for number in range(4)]
    assert len({"first", *nonces}) == 5
    assert make_nonce(nonces[0], 1) not in nonces
