"""Solvers and scorers by name: built in, or from another package."""

import json
from pathlib import Path

import pytest

from labrunner import Task, eval
from labrunner.dataset import Sample
from labrunner.errors import InputError
from tests.kit.cli.calling import lab, write_experiment
from tests.kit.extending.extras import write_extras
from tests.kit.extending.packages import write_package

FILE = """
from labrunner import Task, task
from labrunner.dataset import Sample


@task
def words():
    return Task([Sample(input="apple", target="APPLE")], solver={solver}, scorer={scorer})
"""


def write(folder: Path, solver: object, scorer: object) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "words.py").write_text(FILE.format(solver=repr(solver), scorer=repr(scorer)))
    return folder


def test_a_task_names_a_foreign_solver_and_a_foreign_scorer(tmp_path: Path) -> None:
    folder, env = write(tmp_path / "t", "shout", ["loudness", "match"]), write_extras(tmp_path / "site")
    answer = lab("run", "words.py", cwd=folder, env=env)
    assert answer.code == 0, answer.err
    plan = lab("plan", "words.py", "--json", cwd=folder, env=env).json()
    program = plan["experiment"]["variants"][0]["program"]
    assert [step["name"] for step in program["steps"]] == ["shout"]
    assert [scorer["name"] for scorer in program["scorers"]] == ["loudness", "match"]
    assert lab("show", "last", "--json", cwd=folder).json()["summary"]["totals"]["pass"] == 1


def test_built_in_names_are_the_functions_of_that_name(tmp_path: Path) -> None:
    task = Task([Sample(input="a", target="a")], solver=["chain_of_thought", "generate"], scorer="includes")
    (log,) = eval(task, model="mock/echo", log_dir=tmp_path, display="none")
    assert log.status == "success"
    assert log.results is not None
    assert [score.name for score in log.results.scores] == ["includes"]


@pytest.mark.parametrize(
    ("solver", "scorer", "told"),
    [
        ("think", "match", "solver: there is no solver 'think'; known: generate, chain_of_thought, "),
        ("generate", "mach", "scorer: there is no scorer 'mach'; known: match, includes"),
        ("system_message", "match", "solver: the solver 'system_message' can't be made"),
    ],
)
def test_a_name_that_can_not_be_used_is_told(tmp_path: Path, solver: str, scorer: str, told: str) -> None:
    task = Task([Sample(input="a", target="a")], solver=solver, scorer=scorer)
    with pytest.raises(InputError) as caught:
        eval(task, model="mock/echo", log_dir=tmp_path, display="none")
    assert told in str(caught.value)


def test_options_name_a_solver_and_a_scorer_instead_of_the_task_s_own(tmp_path: Path) -> None:
    folder, env = write(tmp_path / "t", "generate", "match"), write_extras(tmp_path / "site")
    named = ("--solver", "shout", "-S", "end='!'", "--scorer", "loudness")
    answer = lab("run", "words.py", *named, cwd=folder, env=env)
    assert answer.code == 0, answer.err
    retried = lab("retry", "last", cwd=folder, env=env)  # keeps what was asked for
    assert retried.code == 0, retried.err
    for run in folder.glob(".lab/runs/*/run.json"):
        program = json.loads(run.read_text())["experiment"]["variants"][0]["program"]
        assert program["steps"] == [{"name": "shout", "arguments": {"end": "!"}}]
        assert [scorer["name"] for scorer in program["scorers"]] == ["loudness"]


def test_eval_takes_names_too(tmp_path: Path) -> None:
    task = Task([Sample(input="a", target="a b")], scorer="match")
    asked = {"solver": "prompt_template", "solver_args": {"template": "{prompt} b"}}
    (log,) = eval(task, model="mock/echo", scorer="exact", log_dir=tmp_path, display="none", **asked)  # type: ignore[arg-type]
    assert log.results is not None
    assert [score.name for score in log.results.scores] == ["exact"]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--solver", "think"], "--solver: there is no solver 'think'"),
        (["--solver", "shout", "-S", "volume=3"], "--solver: the solver 'shout' can't be made: "),
        (["-S", "end=x"], "-S: gives arguments of a solver; name it with --solver"),
    ],
)
def test_options_that_name_what_is_not_there_are_told(tmp_path: Path, words: list[str], told: str) -> None:
    folder = write(tmp_path / "t", "shout", "match")
    answer = lab("plan", "words.py", *words, cwd=folder, env=write_extras(tmp_path / "site"))
    assert answer.code == 2
    assert told in answer.err


def test_an_experiment_file_takes_no_solver(tmp_path: Path) -> None:
    answer = lab("plan", "--solver", "generate", cwd=write_experiment(tmp_path / "e", tasks=1))
    assert answer.code == 2
    assert "--solver: is for tasks written in Python" in answer.err


def test_a_solver_that_is_no_function_is_refused_with_its_package(tmp_path: Path) -> None:
    points = {"labrunner.solvers": {"bad": "lab_bad:S"}}
    site = write_package(tmp_path / "site", "lab-bad", {"lab_bad.py": "S = 7"}, points)
    answer = lab("run", "words.py", cwd=write(tmp_path / "t", "bad", "match"), env={"PYTHONPATH": str(site)})
    assert answer.code == 2
    assert "(lab-bad 1.0, entry point bad = lab_bad:S) must be a function that gives a solver" in answer.err
