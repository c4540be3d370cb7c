"""What `lab show` says of a run while it goes on."""

import os
import signal
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.kit.cli.calling import lab
from tests.kit.cli.live import TRIAL, await_, following, read_line, running, write_waiting
from tests.kit.sandbox.kinds import KINDS


@pytest.mark.parametrize("kind", KINDS)
def test_every_phase_of_a_running_trial_is_listed_with_its_time(tmp_path: Path, kind: str) -> None:
    folder = write_waiting(tmp_path / "e", sandbox=kind)
    with running(folder) as run:
        for phase in ("setup", "agent", "grader"):
            seen = run.await_phase(phase)
            assert seen.trial_id == TRIAL
            assert seen.began_at is not None
            since = seen.since or ""
            assert seen.began_at <= since
            assert abs((datetime.now(UTC) - datetime.fromisoformat(since)).total_seconds()) < 60
            listed = lab("show", "r", cwd=folder).out
            assert "under way" in listed
            assert [phase] == [line.split()[2] for line in listed.splitlines() if line.startswith(TRIAL)]
            told = lab("show", "r", "--json", cwd=folder).json()["under_way"]
            assert [(each["trial_id"], each["attempt"], each["phase"]) for each in told] == [
                (TRIAL, 1, phase)
            ]
            run.go(phase)
        run.end()
        assert "under_way" not in lab("show", "r", "--json", cwd=folder).json()


@pytest.mark.parametrize("kind", KINDS)
def test_a_running_trial_is_shown_with_safe_and_masked_ends_of_its_logs(tmp_path: Path, kind: str) -> None:
    extra = "variants: [{id: baseline, agent: {secrets: [A_KEY]}}]\n"
    folder = write_waiting(tmp_path / "e", sandbox=kind, extra=extra)
    env = {"A_KEY": "sk-very-secret"}
    with running(folder, **env) as run:
        run.await_phase("setup")
        run.go("setup")
        run.await_phase("agent")
        log = run.paths.attempt(TRIAL, 1) / "logs" / "agent.stdout"
        await_(lambda: "agent begins" in log.read_text(), "the agent's first words")
        shown = lab("show", "r", "t0", cwd=folder, env=env)
        assert shown.code == 0
        assert f"{TRIAL}: running, agent for 0:" in shown.out
        assert "\\x1b[31mred\\u202e [masked:A_KEY]" in shown.out
        assert "\x1b" not in shown.out
        told = lab("show", "r", "0", "--json", cwd=folder, env=env).json()
        assert (told["phase"], told["attempt"]) == ("agent", 1)
        assert "agent begins" in told["logs"]["logs/agent.stdout"]
        assert "setup begins" in told["logs"]["logs/setup.stdout"]


def test_following_a_trial_shows_what_it_writes_and_how_it_ends(tmp_path: Path) -> None:
    folder = write_waiting(tmp_path / "e", sandbox="process")
    with running(folder) as run:
        run.await_phase("setup")
        with following(folder, "r", "t0") as seen:
            assert "running, setup" in read_line(seen)
            for phase in ("setup", "agent", "grader"):
                run.await_phase(phase)
                run.go(phase)
            run.end()
            out = seen.communicate(timeout=60)[0]
    assert seen.returncode == 0
    assert "logs/agent.stdout: agent begins" in out
    assert "logs/grader.stdout: grader begins" in out
    assert f"{TRIAL}: pass, pass = 1" in out


def test_following_a_run_ends_with_the_run_and_tells_programs_each_change(tmp_path: Path) -> None:
    folder = write_waiting(tmp_path / "e", sandbox="process")
    with running(folder) as run:
        run.await_phase("setup")
        with following(folder, "r") as people, following(folder, "r", "--json") as programs:
            assert read_line(people).startswith("0/1  ")
            assert '"phase":"setup"' in read_line(programs)
            for phase in ("setup", "agent", "grader"):
                run.await_phase(phase)
                run.go(phase)
            run.end()
            assert "success: 1 of 1 trial finished" in people.communicate(timeout=60)[0]
            lines = programs.communicate(timeout=60)[0].splitlines()
    assert '"state":"success"' in lines[-1]
    assert (people.returncode, programs.returncode) == (0, 0)


@pytest.mark.parametrize("words", [("r",), ("r", "t0"), ("r", "t0", "--json")])
def test_following_ends_at_once_with_ctrl_c_and_leaves_the_run_alone(
    tmp_path: Path, words: tuple[str, ...]
) -> None:
    folder = write_waiting(tmp_path / "e", sandbox="process")
    with running(folder) as run:
        run.await_phase("setup")
        with following(folder, *words) as seen:
            assert read_line(seen)
            os.kill(seen.pid, signal.SIGINT)
            _, err = seen.communicate(timeout=20)
        assert (seen.returncode, err) == (130, "")
        assert run.process.poll() is None


def test_a_trial_that_waits_to_be_tried_again_is_listed_with_its_cause(tmp_path: Path) -> None:
    folder = write_waiting(tmp_path / "e", sandbox="process", extra="retry_on_error: 1\n")
    with running(folder) as run:
        run.await_phase("setup")
        (run.paths.attempt(TRIAL, 1) / "workspace" / "fail-first").write_text("")
        run.go("agent")
        run.go("setup")
        waiting = run.await_phase("waiting")
        assert [each.end.cause for each in waiting.failed] == ["provider"]  # type: ignore[union-attr]
        run.await_phase("setup", attempt=2)
        shown = lab("show", "r", "t0", cwd=folder).out
        assert "(attempt 2, begun" in shown
        assert "attempt 1: failed, cause provider (agent_error_exit)" in shown


def test_a_trial_that_a_killed_run_left_says_how_far_it_was(tmp_path: Path) -> None:
    folder = write_waiting(tmp_path / "e", sandbox="process")
    with running(folder) as run:
        run.await_phase("setup")
        run.go("setup")
        run.await_phase("agent")
        run.process.kill()
        run.process.wait()
        shown = lab("show", "r", "t0", cwd=folder)
        assert shown.code == 0
        assert "not finished, and nobody carries it out now (attempt 1; it was at: agent)" in shown.out
        assert "setup begins" in shown.out


def test_a_trial_that_has_not_begun_is_told_so(tmp_path: Path) -> None:
    folder = write_waiting(tmp_path / "e", sandbox="process", extra="replications: 2\nmax_concurrency: 1\n")
    with running(folder) as run:
        run.await_phase("setup")
        answer = lab("show", "r", "1", cwd=folder)
        assert answer.code == 2
        assert "(slot 1) has not been started yet" in answer.err


PYTHON_TASK = """
import asyncio, pathlib
from labrunner import Task, task
from labrunner.dataset import MemoryDataset, Sample
from labrunner.scorer import CORRECT, INCORRECT, Score, scorer, accuracy
from labrunner.solver import solver

async def wait(name):
    while not pathlib.Path(name).exists():
        await asyncio.sleep(0.05)

@solver
def waits():
    async def solve(state, generate):
        state = await generate(state)
        await wait("go-agent")
        return state
    return solve

@scorer(metrics=[accuracy()])
def judges():
    async def score(state, target):
        await wait("go-grader")
        return Score(value=CORRECT)
    return score

@task
def waiting():
    return Task(dataset=MemoryDataset([Sample(id="t0", input="say so")]), solver=waits(), scorer=judges())
"""


def test_a_running_python_task_is_shown_with_its_conversation(tmp_path: Path) -> None:
    (tmp_path / "waiting.py").write_text(PYTHON_TASK)
    with running(tmp_path, "waiting.py", "--model", "mock/echo") as run:
        for phase in ("agent", "grader"):
            seen = run.await_phase(phase)
            assert seen.since is not None
            shown = lab("show", "r", "t0", cwd=tmp_path).out
            assert f"running, {phase} for 0:" in shown
            assert "say so" in shown
            (tmp_path / f"go-{phase}").write_text("")
        run.end()
