"""The oracle in real containers: its folder is where scripts of other people's tasks look for it."""

from pathlib import Path

import pytest

from labrunner.experiment.resolved import Solution
from labrunner.records.completion import Graded
from tests.kit.docker.trials import PASS, Trial, shell

ALONE = f"[ -e answer.txt ] && {PASS}"


@pytest.fixture
def trial(tmp_path: Path, ash: str) -> Trial:
    return Trial(root=tmp_path / "run", image=ash)


@pytest.fixture
def answers(tmp_path: Path) -> Path:
    folder = tmp_path / "answers"
    folder.mkdir()
    (folder / "word").write_text("right")
    (folder / "solve.sh").write_text("cp /solution/word answer.txt\n")
    return folder


@pytest.mark.parametrize("changes", [{}, {"read_only": True}], ids=["plain", "read_only"])
async def test_the_oracle_finds_its_folder_and_its_mount_is_no_change_of_the_system(
    trial: Trial, answers: Path, changes: dict[str, bool]
) -> None:
    trial.sandbox |= changes
    trial.agent, trial.agent_changes = (), {"runs": "solution"}
    command = ("sh", "/solution/solve.sh")
    trial.task = {"solution": Solution(command=command, dir=str(answers), digest="sha256:0", env={"A": "b"})}
    trial.grader = shell(ALONE)
    trial.experiment_changes |= {"on_system_change": "refuse"}
    completion = await trial.carry_out()
    assert isinstance(completion.end, Graded)
    assert (completion.end.verdict, completion.end.flags) == ("pass", ())


async def test_a_solution_works_in_the_images_own_folder(trial: Trial) -> None:
    trial.agent, trial.agent_changes = (), {"runs": "solution"}
    trial.sandbox |= {"workdir": "/home"}
    trial.experiment_changes |= {"on_system_change": "flag"}
    trial.task = {"solution": Solution(command=shell("pwd > answer.txt"))}
    trial.grader = shell(f"grep -qx /home /home/answer.txt && {PASS}")
    completion = await trial.carry_out()
    assert isinstance(completion.end, Graded)
    assert completion.end.verdict == "pass"


async def test_a_no_op_does_nothing(trial: Trial) -> None:
    trial.agent, trial.agent_changes = (), {"runs": "nothing"}
    trial.grader = shell(f'[ -z "$(ls)" ] && {PASS}')
    completion = await trial.carry_out()
    assert isinstance(completion.end, Graded)
    assert completion.end.verdict == "pass"
    assert completion.agent is not None
    assert completion.agent.exit_status == 0
