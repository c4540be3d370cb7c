import random

import msgspec
import pytest

from labrunner.analysis.judging.cautions import Caution, describe_caution
from labrunner.analysis.report import make_report
from labrunner.analysis.sums.conduct import Conduct
from labrunner.analysis.sums.tally import Tally
from labrunner.records.completion import PhaseFact
from labrunner.records.glance import AttemptTimes, BarrierGlance, TimingGlance
from labrunner.records.rows import TrialRow
from tests.kit.analysis.trial_rows import failed, graded


class Agents:
    """A run's agents, told one by one."""

    def __init__(self) -> None:
        self.rows: list[tuple[TrialRow, TimingGlance]] = []

    def add(
        self,
        count: int = 1,
        *,
        variant: str = "a",
        passes: bool = False,
        status: int | None = 0,
        seconds: float = 60.0,
        idle: bool = False,
        outcome: str | None = None,
        changed: str = "",
        flags: tuple[str, ...] = (),
        barrier: str = "restarted",
    ) -> "Agents":
        for _ in range(count):
            row = graded(variant, f"t{len(self.rows)}", value=float(passes))
            fact = msgspec.structs.replace(row.attempts[-1], agent=PhaseFact(exit_status=status))
            times = AttemptTimes(
                ended_at="2026-01-01T00:00:00Z",
                phases_s={"agent": seconds},
                left_nothing=idle,
                agent_outcome=outcome,
                barrier=BarrierGlance(changed=changed),
            )
            self.rows.append(
                (
                    msgspec.structs.replace(row, attempts=(fact,), flags=flags, barrier=barrier),
                    TimingGlance(schedule_idx=0, attempts=(times,)),
                )
            )
        return self

    def cautions(self) -> tuple[Caution, ...]:
        conduct, tally = Conduct(), Tally({row.ids.task_id: None for row, _ in self.rows})
        for row, timing in self.rows:
            tally.add(row)
            conduct.add(row, timing)
        planned = dict.fromkeys((row.ids.variant_id for row, _ in self.rows), len(self.rows))
        found = make_report(tally, planned, with_intervals=False, conduct=conduct).cautions
        return tuple(each for each in found if each.kind not in {"coverage", "ungraded", "ragged"})

    def told(self) -> list[str]:
        return [str(caution) for caution in self.cautions()]


def test_agents_that_all_exit_alike_without_a_pass_are_told_with_a_trial_to_look_at() -> None:
    agents = Agents().add(12, status=41, seconds=0.6)
    (caution,) = agents.cautions()
    assert str(caution) == "a: 12 of 12 agents exited with 41; none of these passed: did they really run?"
    first = agents.rows[0][0].ids.trial_id
    assert describe_caution(caution, "last").endswith(f"; see: lab show last {first}")


def test_each_sign_is_named_in_one_warning() -> None:
    agents = Agents().add(10, status=41, seconds=0.5, idle=True)
    agents.add(10, variant="b", seconds=60.0).add(10, variant="b", passes=True, seconds=90.0)
    (told,) = agents.told()
    assert told == (
        "a: 10 of 10 agents exited with 41; 10 of 10 agents changed nothing and handed in nothing; "
        "10 of 10 agents ended within 7.5 s, others take 75 s; none of these passed: did they really run?"
    )


@pytest.mark.parametrize(
    ("agents", "part"),
    [
        (Agents().add(1, status=41), "1 of 1 agent exited with 41"),
        (Agents().add(6, status=2, idle=True).add(5, passes=True), "6 of 11 agents exited with 2"),
        (Agents().add(9, status=0, idle=True).add(3), "9 of 12 agents changed nothing"),
        (Agents().add(3, status=127), "exited with 127, as where a command is not found"),
        (
            Agents().add(4, seconds=0.2).add(6, variant="b", seconds=20.0, passes=True),
            "4 of 4 agents ended within 2 s, others take 20 s",
        ),
    ],
)
def test_a_sign_that_holds_for_most_is_told(agents: Agents, part: str) -> None:
    (told,) = agents.told()
    assert part in told


@pytest.mark.parametrize(
    "agents",
    [
        Agents().add(20).add(20, passes=True),
        Agents().add(30, status=1).add(1, status=1, passes=True),  # an agent whose status says nothing
        Agents().add(7, status=1).add(13),  # some that gave up
        Agents().add(4, status=1, idle=True).add(8),
        Agents().add(2, status=1).add(1, status=2).add(1, status=3),  # errors of all kinds
        Agents().add(9, idle=True).add(3, idle=True, passes=True),  # what counts is done elsewhere
        Agents().add(10, seconds=0.1).add(10, variant="b", seconds=0.9),  # all are quick
        Agents()
        .add(9, seconds=0.1)
        .add(1, seconds=0.1, passes=True)
        .add(9, variant="b"),  # quick, and it passes
        Agents().add(20, status=None),  # ended by a limit
    ],
)
def test_honest_runs_are_not_suspected(agents: Agents) -> None:
    assert agents.told() == []


def test_honest_agents_of_many_kinds_raise_no_suspicion() -> None:
    chance = random.Random(7)
    suspected = 0
    for _ in range(300):
        agents = Agents()
        for variant in ("a", "b"):
            skill, gives_up = chance.uniform(0.05, 0.9), chance.uniform(0.0, 0.25)
            for _ in range(chance.randint(8, 40)):
                passes = chance.random() < skill
                has_given_up = not passes and chance.random() < gives_up
                agents.add(
                    variant=variant,
                    passes=passes,
                    status=int(has_given_up),
                    idle=has_given_up and chance.random() < 0.5,
                    seconds=chance.lognormvariate(3.0, 1.0),
                )
        suspected += bool(agents.told())
    assert suspected == 0


def test_agents_that_say_they_failed_are_told_however_few() -> None:
    agents = Agents().add(20, passes=True, outcome="success").add(2, outcome="error")
    (caution,) = agents.cautions()
    assert str(caution) == 'a: 2 agents say `outcome: "error"` in their result; graded as they stood'
    assert caution.trial_id == agents.rows[20][0].ids.trial_id


def test_paths_that_an_agent_changed_are_named() -> None:
    agents = Agents().add(4, passes=True)
    agents.add(2, passes=True, changed="/etc/a\n/usr/b\n/usr/c\n/usr/d", flags=("system_changed",))
    (caution,) = agents.cautions()
    assert str(caution).endswith("the system that the grader ran in (/etc/a, /usr/b, /usr/c, ...)")
    assert caution.trial_id == agents.rows[4][0].ids.trial_id


def test_trials_that_were_judged_in_a_fresh_container_are_told_with_what_to_write() -> None:
    agents = Agents().add(4, passes=True)
    agents.add(2, changed="/etc/nginx", flags=("system_changed",), barrier="fresh_container")
    (caution,) = agents.cautions()
    assert str(caution) == (
        "a: 2 trials judged in a fresh container, because the agent changed the system (/etc/nginx); "
        "if the work of these tasks lies there, set on_system_change: flag"
    )
    assert caution.trial_id == agents.rows[4][0].ids.trial_id


def test_trials_judged_in_place_and_in_fresh_containers_are_told_apart() -> None:
    agents = Agents().add(4, passes=True)
    agents.add(1, passes=True, changed="/etc/a", flags=("system_changed",))
    agents.add(1, passes=True, changed="/etc/b", flags=("system_changed",), barrier="fresh_container")
    (caution,) = agents.cautions()
    assert str(caution).startswith(
        "a: in 1 trial the agent changed the system that the grader ran in (/etc/a)"
    )
    assert "; 1 trial judged in a fresh container, because the agent changed the system" in str(caution)


def test_trials_without_a_grade_say_nothing_of_agents() -> None:
    conduct = Conduct()
    conduct.add(failed(), TimingGlance(schedule_idx=0, attempts=(AttemptTimes(ended_at=""),)))
    assert conduct.variants["a"].agents == 0
    assert conduct.suspicions() == {}
