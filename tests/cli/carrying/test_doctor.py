"""`lab doctor`, with and without an experiment."""

from pathlib import Path

import pytest

from tests.kit.cli.calling import lab, write_experiment


def test_without_an_experiment_the_machine_is_checked_and_that_is_said(tmp_path: Path) -> None:
    answer = lab("doctor", cwd=tmp_path, env={"DOCKER_HOST": f"unix://{tmp_path}/no-engine"})
    assert (answer.code, answer.err) == (0, "")
    assert "there is no experiment.yaml here, so only this machine was checked" in answer.out
    for name in ("storage", "disk", "bubblewrap", "docker"):
        assert f" {name} " in answer.out
    assert "no  docker" in answer.out
    assert list(tmp_path.iterdir()) == []


def test_in_a_folder_of_python_tasks_it_is_said_how_to_check_one(tmp_path: Path) -> None:
    (tmp_path / "ctf.py").write_text("")
    assert "for a task in Python: lab doctor ctf.py" in lab("doctor", cwd=tmp_path).out


def test_programs_are_told_the_same(tmp_path: Path) -> None:
    told = lab("doctor", "--json", cwd=tmp_path, env={"DOCKER_HOST": f"unix://{tmp_path}/no-engine"}).json()
    assert told["experiment"] is None
    assert {"storage", "disk", "bubblewrap", "docker"} <= {check["name"] for check in told["checks"]}


def test_an_experiment_that_is_named_and_not_there_is_bad_input(tmp_path: Path) -> None:
    assert lab("doctor", "mine.yaml", cwd=tmp_path).code == 2


def test_what_is_built_in_is_listed_of_the_machine_and_no_news_of_an_experiment(tmp_path: Path) -> None:
    assert "sandbox kind" in lab("doctor", cwd=tmp_path).out
    home = write_experiment(tmp_path / "home")
    answer = lab("doctor", cwd=home)
    assert answer.code == 0, answer.err
    assert "sandbox kind" not in answer.out
    assert {each["door"] for each in lab("doctor", "--json", cwd=home).json()["known"]} >= {"sandbox kind"}


def test_a_model_is_asked_and_how_a_sandbox_reaches_it_is_said(tmp_path: Path) -> None:
    lab("init", "fresh", "--template", "agent", cwd=tmp_path)
    answer = lab("doctor", cwd=tmp_path / "fresh")
    assert answer.code == 0, answer.out + answer.err
    assert "answers.json has 25 answers: nobody is asked" in " ".join(answer.out.split())
    assert "has no answer for a plain greeting" in " ".join(answer.out.split())
    (reach,) = [line for line in answer.out.splitlines() if line.startswith("ok  reach")]
    assert ("planted: " if "bubblewrap" in answer.out else "loopback: ") in reach


def test_a_model_that_does_not_answer_is_an_error_unless_nobody_is_to_be_asked(tmp_path: Path) -> None:
    folder = write_experiment(tmp_path / "e", tasks=1)
    with (folder / "experiment.yaml").open("a") as file:
        file.write('models: {m: {dialect: openai, base_url: "http://127.0.0.1:1/v1"}}\n')
    network = ("--set", "agent.network={models: [m], allow: full}")
    asked = lab("doctor", *network, cwd=folder)
    assert asked.code == 2
    assert "http://127.0.0.1:1/v1: nothing listens there; is the server started?" in asked.out
    assert lab("doctor", "--offline", *network, cwd=folder).code == 0


@pytest.mark.parametrize("command", ["plan", "doctor"])
def test_a_solution_is_said_to_be_the_oracles(tmp_path: Path, command: str) -> None:
    folder = write_experiment(tmp_path / "e", tasks=1)
    (folder / "tasks.jsonl").write_text(
        '{"id": "t0", "input": "word", "target": "x", "solution": ["true"]}\n'
    )
    answer = lab(command, cwd=folder)
    assert answer.code == 0, answer.err
    (line,) = [line for line in answer.out.splitlines() if "oracle" in line]
    assert "solution" in line
