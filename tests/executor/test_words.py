"""Commands that are too long are refused before the first trial, by task, variant and field."""

from pathlib import Path
from typing import Any

import pytest

from labrunner.executor.local import LocalExecutor
from labrunner.executor.words import check_words
from labrunner.experiment.resolved import Setup
from labrunner.sandbox.docker.maker import DockerMaker
from labrunner.sandbox.door import Check, SandboxMaker
from labrunner.sandbox.fake import FakeMaker
from labrunner.trial.assignment import TrialContext
from tests.kit.builders import make_agent, make_experiment, make_grader, make_task, make_variant

KIB = 1024


def context(tmp_path: Path, agent: dict[str, Any], task: dict[str, Any], **secrets: str) -> TrialContext:
    tasks = (make_task(id="short"), make_task(id="long", **task))
    experiment = make_experiment(tasks=tasks, variants=(make_variant(agent=make_agent(**agent)),))
    return TrialContext(experiment=experiment, run_id="r", trials_dir=tmp_path, host="here", secrets=secrets)


def examine(found: TrialContext, maker: SandboxMaker) -> list[Check]:
    return list(check_words(found, lambda variant: maker))


@pytest.mark.parametrize(
    ("agent", "task", "named", "times"),
    [
        ({"command": ("sh", "-c", "x" * 70 * KIB)}, {}, "agent.command", 2),
        ({"env": {"A": "x" * 70 * KIB}}, {}, "agent.env", 2),
        ({}, {"env": {"A": "x" * 40 * KIB, "B": "y" * 30 * KIB}}, "the task's env", 1),
        ({}, {"setup": Setup(command=("sh", "-c", "x" * 70 * KIB))}, "setup.command", 1),
        ({}, {"grader": make_grader(env={"A": "'" * 20 * KIB})}, "grader.env", 1),
    ],
)
def test_what_a_container_can_not_be_told_is_named(
    tmp_path: Path, agent: dict[str, Any], task: dict[str, Any], named: str, times: int
) -> None:
    checks = examine(context(tmp_path, agent, task), DockerMaker())
    assert len(checks) == times
    assert not checks[-1].passed
    assert checks[-1].message.startswith("task long, variant baseline: commands and environment come to ")
    assert "more than 65536; put large things into files" in checks[-1].message
    assert checks[-1].message.endswith(f"(the longest is {named})")


def test_a_graders_command_reaches_a_container_as_a_file_and_the_kernel_limits_its_words(
    tmp_path: Path,
) -> None:
    fits, does_not = (make_grader(command=("sh", "-c", "x" * size * KIB)) for size in (100, 128))
    assert examine(context(tmp_path, {}, {"grader": fits}), DockerMaker()) == []
    (check,) = examine(context(tmp_path, {}, {"grader": does_not}), DockerMaker())
    assert "the grader has a word or a variable of 131072 bytes, and Linux takes 131071" in check.message


def test_what_just_fits_passes_and_so_do_secrets_that_are_missing(tmp_path: Path) -> None:
    agent = {"env": {"A": "x" * 50 * KIB}, "secrets": ("KEY",)}
    assert examine(context(tmp_path, agent, {}, KEY="x" * 8 * KIB), DockerMaker()) == []
    assert examine(context(tmp_path, agent, {}), DockerMaker()) == []
    (check, _) = examine(context(tmp_path, agent, {}, KEY="x" * 16 * KIB), DockerMaker())
    assert "(the longest is agent.env)" in check.message


def test_other_sandboxes_take_what_the_kernel_takes(tmp_path: Path) -> None:
    assert examine(context(tmp_path, {"env": {"A": "x" * 100 * KIB}}, {}), FakeMaker()) == []
    (check, _) = examine(context(tmp_path, {"env": {"A": "x" * 128 * KIB}}, {}), FakeMaker())
    assert "a word or a variable of 131074 bytes, and Linux takes 131071" in check.message


async def test_preflight_tells_of_it(tmp_path: Path) -> None:
    found = context(tmp_path, {"env": {"A": "x" * 200 * KIB}}, {})
    checks = await LocalExecutor(found, lambda kind: FakeMaker()).preflight()
    assert [check.name for check in checks if not check.passed] == ["commands", "commands"]
