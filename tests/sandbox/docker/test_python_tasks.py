"""Python tasks in real containers."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from labrunner.solve.authoring.scorer import scorer
from labrunner.solve.library.scorers import includes
from labrunner.solve.library.solvers import generate, use_tools
from labrunner.solve.library.tools import bash
from labrunner.solve.models.environment import sandbox
from labrunner.solve.scoring.metrics import accuracy
from labrunner.solve.values.sample import Target
from labrunner.solve.values.score import CORRECT, INCORRECT, Score
from labrunner.solve.values.state import TaskState
from tests.kit.solve.authoring import in_sandbox, make_task, retry, run, samples, write_task
from tests.kit.solve.chatserver import Refuse, Reply, Say, last_user, serving

CTF = """
def read_dataset():
    return json_dataset("ctf.jsonl")

@task
def intercode_ctf():
    return Task(
        dataset=read_dataset(),
        solver=[
            system_message("system.txt"),
            use_tools([bash(timeout=120)]),
            generate(),
        ],
        fail_on_error=0.1,
        scorer=includes(),
        sandbox="docker",
    )
"""


def test_the_ctf_example_fails_by_rate_limits_and_a_retry_completes_it(
    tmp_path: Path, ash: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "a-key-for-tests")
    folder = tmp_path / "ctf"
    folder.mkdir()
    flags = [f"picoCTF{{flag_{n}}}" for n in range(4)]
    rows = [
        {"input": f"Find flag {n}.", "target": flag, "files": {"flag.txt": flag}}
        for n, flag in enumerate(flags)
    ]
    (folder / "ctf.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "system.txt").write_text("You capture flags.")
    (folder / "Dockerfile").write_text(f"FROM {ash}\n")
    file = write_task(folder, CTF, "ctf.py")
    is_busy, asked_for = True, Counter[str]()

    def reply(asked: dict[str, Any]) -> Reply:
        asked_for[last_user(asked)] += 1
        if is_busy and last_user(asked) == "Find flag 2.":
            return Refuse(status=429, retry_after="0")
        last = asked["messages"][-1]
        if last["role"] == "user":
            return Say(calls=[("bash", {"cmd": "cat flag.txt; sleep 300 &"})])
        return Say(text=f"The flag is {last['content']}")

    with serving(reply) as server:
        options = {"model_base_url": server.url, "max_retries": 1, "continue_on_fail": True}
        log = run(str(file), tmp_path, "openai/gpt-5-mini", **options)
        assert log.status == "error"
        assert [sample.error is None for sample in log.samples] == [True, True, False, True]
        is_busy, before = False, dict(asked_for)
        again = retry(log, max_connections=3)
    assert again.status == "success"
    assert again.results.metrics["accuracy"].value == 1.0
    assert {name for name, count in asked_for.items() if count > before.get(name, 0)} == {"Find flag 2."}


def test_a_containers_solver_scorer_and_grader_meet_in_one_workspace(tmp_path: Path, ash: str) -> None:
    from labrunner.solve.authoring.command import command_scorer
    from labrunner.solve.models.environment import sandbox

    async def work() -> str:
        await sandbox().write_file("answer.txt", "42")
        return (await sandbox().exec(["cat", "answer.txt"])).stdout

    grade = command_scorer(
        'test "$$(cat answer.txt)" = 42 && s=1 || s=0; '
        'echo "{\\"score\\": $$s}" > "$$AGENTLAB_BENCHMARK_SCORE_PATH"'
    )
    task = make_task(
        samples("x", target="42"),
        solver=in_sandbox(work),
        scorer=[includes(), grade],
        sandbox={"kind": "docker", "image": ash},
    )
    log = run(task, tmp_path, None)
    scores = log.samples[0].scores
    assert scores is not None
    assert {name: score.as_float() for name, score in scores.items()} == {"includes": 1.0, "command": 1.0}


@pytest.mark.parametrize(("policy", "value"), [(None, 0.0), ("flag", 1.0)])
def test_scorers_use_tools_of_the_image_where_solvers_changed_them(
    tmp_path: Path, ash: str, policy: str | None, value: float
) -> None:
    async def work() -> str:
        evil = "#!/bin/busybox ash\\necho honest\\n"
        await sandbox().exec(["sh", "-c", f"rm /bin/wc; printf '{evil}' > /bin/wc; chmod 755 /bin/wc"])
        await sandbox().write_file("answer.txt", "42")
        return "done"

    @scorer(metrics=[accuracy()])
    def counting() -> object:
        async def score(state: TaskState, target: Target) -> Score:
            said = await sandbox().exec(["/bin/wc", "-c", "answer.txt"])
            assert await sandbox().read_file("answer.txt") == "42"
            return Score(value=CORRECT if "honest" in said.stdout else INCORRECT)

        return score

    task = make_task(
        samples("x", target="42"),
        solver=in_sandbox(work),
        scorer=counting(),
        sandbox={"kind": "docker", "image": ash},
        on_system_change=policy,
    )
    log = run(task, tmp_path, None)
    scores = log.samples[0].scores
    assert scores is not None
    assert scores["counting"].as_float() == value
    (row,) = [
        json.loads(line) for line in next(tmp_path.rglob("facts/trials.jsonl")).read_text().splitlines()
    ]
    assert row["flags"] == ["system_changed"]
    assert row["barrier"] == ("restarted" if policy else "fresh_container")


def test_an_image_without_bash_still_has_a_shell_for_the_model(tmp_path: Path, ash: str) -> None:
    from labrunner.solve.models.asking import mock_model
    from labrunner.solve.values.messages import ModelOutput

    def answer(request: Any) -> ModelOutput:
        if request.messages[-1].role == "tool":
            return ModelOutput.from_content("m", request.messages[-1].content)
        return ModelOutput.for_tool_call("m", "bash", {"cmd": "echo hello from $0"})

    task = make_task(
        samples("x", target="hello from"),
        solver=[use_tools(bash(timeout=30)), generate()],
        sandbox=("docker", ash),
    )
    assert run(task, tmp_path, mock_model(answer)).results.metrics["accuracy"].value == 1.0


def test_a_compose_file_of_one_service_is_the_sandbox(
    tmp_path: Path, ash: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "compose.yaml").write_text(
        f"services:\n  default:\n    image: {ash}\n    x-local: true\n    command: sleep infinity\n"
        "    init: true\n    working_dir: /tmp\n    environment: [WORD=wide]\n    network_mode: none\n"
        "    mem_limit: 256m\n    cpus: 1\n"
    )

    async def work() -> str:
        told = await sandbox().exec(["sh", "-c", "echo $WORD; pwd; ls /sys/class/net"])
        return " ".join(told.stdout.split())

    task = make_task(samples("x"), solver=in_sandbox(work), sandbox="docker", on_system_change="flag")
    log = run(task, tmp_path, None)

    assert log.status == "success", log.samples[0].error
    score = log.samples[0].score
    assert score is not None
    assert score.answer == "wide /tmp lo"
