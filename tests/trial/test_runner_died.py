"""An attempt whose runner died behind the barrier, taken up by another one."""

from pathlib import Path

import msgspec
import pytest

from labrunner.experiment.resolved import Setup
from labrunner.files.host import boot_id
from labrunner.records.completion import Completion, Graded
from labrunner.runner.leftovers.resumption import Situation, plan_resumption
from labrunner.sandbox.bare import ProcessMaker
from labrunner.sandbox.bubblewrap.namespaced import BubblewrapMaker
from labrunner.sandbox.bubblewrap.program import works_here
from labrunner.sandbox.door import SandboxMaker, Survivor
from labrunner.store.buffering.attempts import AttemptNote
from tests.kit.builders import (
    NO_NETWORK,
    make_agent,
    make_experiment,
    make_grader,
    make_sandbox,
    make_task,
    make_variant,
)
from tests.kit.trial.attempting import Attempt

GRADE = "test -e answer && cp right $$AGENTLAB_BENCHMARK_SCORE_PATH"


def make(kind: str) -> SandboxMaker:
    if kind == "process":
        return ProcessMaker()
    if not works_here()[0]:
        pytest.skip(works_here()[1])
    return BubblewrapMaker()


def begin(kind: str, trials_dir: Path) -> Attempt:
    task = make_task(
        grader=make_grader(command=("sh", "-c", GRADE), repeatable=True),
        setup=Setup(
            command=("sh", "-c", 'echo \'{"verdict": "pass"}\' > right'), timeout_s=30.0, network=NO_NETWORK
        ),
    )
    agent = make_agent(command=("sh", "-c", "test -e right && touch answer; exit 3"))
    variant = make_variant(agent=agent, sandbox=make_sandbox(kind=kind))
    return Attempt(make_experiment(tasks=(task,), variants=(variant,)), trials_dir, {})


def find_left(run: Attempt, first: Completion) -> Survivor:
    """What the next sitting makes of the note that was left at the barrier."""
    note = AttemptNote(
        token="token",
        schedule_idx=0,
        trial_id=first.trial_id,
        attempt=1,
        state="grading",
        barrier=msgspec.json.encode(run.notes.barrier),
        grader_started=True,
    )
    here = Situation(outlives_runner=False, repeatable_grader=True, boot_id=boot_id())
    (adoption,) = plan_resumption((), (note,), (), lambda note: here).adoptions
    return adoption.survivor


@pytest.mark.parametrize("kind", ["process", "bubblewrap"])
async def test_a_runner_that_died_while_it_collected_is_replaced_without_another_byte(
    kind: str, tmp_path: Path
) -> None:
    run = begin(kind, tmp_path)
    first = await run.carry_out(make(kind))  # its result is lost with its runner, all its files collected

    second = await run.carry_out(make(kind), find_left(run, first))

    assert isinstance(first.end, Graded)
    assert first.end.verdict == "pass"
    assert first.setup is not None
    assert [second.end, second.setup, second.agent, second.grader, second.files] == [
        first.end,
        first.setup,
        first.agent,
        first.grader,
        first.files,
    ]
    assert second.timing.phases_s["agent"] == first.timing.phases_s["agent"]
    assert second.timing.usage == first.timing.usage
