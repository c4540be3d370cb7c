"""Options of `eval()` and its kin."""

import json
from pathlib import Path
from typing import Any

import pytest
import typer

from labrunner.cli.carrying.run import app
from labrunner.errors import InputError
from labrunner.evaluation.evaluate import eval as evaluate
from labrunner.evaluation.evaluate import eval_retry, eval_set
from labrunner.evaluation.keywords import NewEvalOptions
from labrunner.experiment.options.layers import merge_overrides
from labrunner.experiment.options.overrides import Overrides
from labrunner.solve.models.environment import sandbox
from labrunner.solve.values.sample import Sample
from tests.kit.cli.calling import write_experiment
from tests.kit.solve.authoring import in_sandbox, make_task, retry, run, samples, write_task

ONE = "@task\ndef one():\n    return Task(dataset=[Sample(input='x', target='x')], scorer=includes())\n"
OTHERWISE = {
    "argument": "the first argument",
    "model": "the second argument",
    "generate": "keywords of their own",
    "json": "a log",
    "dry_run": "lab plan",
    "view": "lab view",
    "no_install": "eval() installs nothing: it says how",
    "require": "log.results",
    "require_stable": "log.results",
    "require_coverage": "log.results",
}


def test_every_option_of_the_command_line_is_a_keyword() -> None:
    command = typer.main.get_command(app)
    names = {each.name for each in command.params if not getattr(each, "hidden", False)} - {"help"}
    assert len(names) > 30
    keywords = set(NewEvalOptions.__annotations__)
    missing = names - keywords - set(OTHERWISE)
    assert missing == set()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"limit": "x"}, "limit: must be a whole number from 1 on, found text 'x'"),
        ({"max_connections": 0}, "max_connections: must be a whole number from 1 on, found the number 0"),
        ({"max_retries": -1}, "max_retries: must be a whole number from 0 on, found the number -1"),
        ({"timeout": 0}, "timeout: must be a number above 0, found the number 0"),
        ({"grace": -3}, "grace: must be a number from 0 on, found the number -3"),
        ({"env": {"A": 1}}, "env: must be a map of texts, found a map"),
        ({"task_args": 3}, "task_args: must be a map, found the number 3"),
        ({"stop_seqs": "END"}, "stop_seqs: must be a list of texts, found text 'END'"),
        ({"temperature": "hot"}, "setting temperature: must be a number from 0 on, found text 'hot'"),
        ({"max_tokens": -1}, "setting max_tokens: must be a whole number from 1 on, found the number -1"),
        ({"message_limit": "many"}, "limit messages: must be a whole number from 1 on, found text 'many'"),
        ({"time_limit": True}, "limit time_s: must be a number above 0, found true"),
        ({"keep_sandbox": "x"}, "keep_sandbox: expected 'failed' or 'never', found 'x'"),
        ({"set": {"nix": 1}}, "nix: there is no such field"),
    ],
)
def test_a_value_of_the_wrong_kind_is_refused_and_nothing_is_written(
    tmp_path: Path, options: dict[str, Any], said: str
) -> None:
    with pytest.raises(InputError) as told:
        run(make_task(), tmp_path, **options)
    assert said in str(told.value)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.bwrap
def test_variables_and_fields_are_given_as_on_the_command_line(tmp_path: Path) -> None:
    async def look() -> str:
        return (await sandbox().exec(["sh", "-c", "echo $COLOUR"])).stdout

    task = make_task(samples("x", target="blue"), solver=in_sandbox(look), sandbox="bubblewrap")
    log = run(task, tmp_path, None, env={"COLOUR": "blue"}, set={"breaker.after": 3})
    assert log.results.metrics["accuracy"].value == 1.0
    recorded = json.loads((Path(log.location) / "run.json").read_text())
    assert recorded["experiment"]["policy"]["breaker"]["after"] == 3


def test_good_results_of_other_runs_are_taken_over(tmp_path: Path) -> None:
    asked: list[str] = []

    async def note(state: Any) -> Any:
        asked.append(state.input_text)
        return state

    def make(*texts: str) -> Any:
        dataset = [Sample(input=text, target="", id=text) for text in texts]
        return make_task(dataset, solver=note)

    run(make("a", "b"), tmp_path)
    again = run(make("a", "b", "c"), tmp_path, reuse=tmp_path / "runs")
    assert [sample.id for sample in again.samples] == ["a", "b", "c"]
    assert sorted(asked) == ["a", "b", "c"]


def test_options_of_a_retry_go_over_those_of_the_run_one_by_one(tmp_path: Path) -> None:
    old = Overrides(generate={"temperature": 0.5, "seed": 1}, limits={"messages": 5}, sets=(("a", "1"),))
    new = Overrides(generate={"seed": 2}, limits={"tokens": 9}, sets=(("b", "2"),))
    merged = merge_overrides(old, new)
    assert merged.generate == {"temperature": 0.5, "seed": 2}
    assert merged.limits == {"messages": 5, "tokens": 9}
    assert merged.sets == (("a", "1"), ("b", "2"))
    log = run(str(write_task(tmp_path, ONE)), tmp_path, temperature=0.5, message_limit=9)
    again = retry(log, max_tokens=100)
    program = json.loads((Path(again.location) / "run.json").read_text())["experiment"]["variants"][0][
        "program"
    ]
    assert program["config"] == {"temperature": 0.5, "max_tokens": 100}
    assert program["limits"] == {"messages": 9}


@pytest.mark.parametrize("model", ["mock/echo", ["mock/say=a", "mock/say=b"]])
def test_a_model_of_an_experiment_file_is_refused_and_nothing_is_run(
    tmp_path: Path, model: str | list[str]
) -> None:
    file = write_experiment(tmp_path / "x") / "experiment.yaml"
    with pytest.raises(InputError, match=r"--model: is for tasks written in Python; .*experiment\.yaml"):
        evaluate(file, model, log_dir=tmp_path / "runs", display=False)
    assert not (tmp_path / "runs").exists()


def test_models_that_the_environment_names_do_not_run_an_experiment_file_once_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAB_MODEL", "mock/say=a mock/say=b")
    file = write_experiment(tmp_path / "x") / "experiment.yaml"
    with pytest.raises(InputError, match="--model"):
        evaluate(file, log_dir=tmp_path / "runs", display=False)
    assert not (tmp_path / "runs").exists()


def test_a_zero_for_python_tasks_is_refused_for_an_experiment_file_too(tmp_path: Path) -> None:
    file = write_experiment(tmp_path / "x") / "experiment.yaml"
    with pytest.raises(InputError, match="--cost-limit: is for tasks written in Python"):
        evaluate(file, cost_limit=0.0, log_dir=tmp_path / "runs", display=False)


def test_a_retry_of_an_experiment_file_s_run_refuses_what_is_for_python_tasks(tmp_path: Path) -> None:
    file = write_experiment(tmp_path / "x", tasks=1) / "experiment.yaml"
    log = evaluate(file, log_dir=tmp_path / "runs", display=False)[0]
    with pytest.raises(InputError, match=r"--model: is for tasks written in Python; .*experiment\.yaml"):
        retry(log, model="mock/echo")
    assert len(list((tmp_path / "runs").iterdir())) == 1


def test_an_id_names_one_run_and_so_is_no_option_of_a_set_or_of_several_retries(tmp_path: Path) -> None:
    file = write_task(tmp_path, ONE)
    logs = [run(str(file), tmp_path, run_id=name) for name in ("a", "b")]
    with pytest.raises(InputError, match="run_id: names one run, but there are 2 to be made"):
        eval_retry(logs, run_id="c", display=False)
    with pytest.raises(InputError, match="run_id: is no option"):
        eval_set(str(file), tmp_path / "set", "mock/echo", display=False, run_id="d")  # type: ignore[call-arg]  # on purpose
    assert sorted(path.name for path in (tmp_path / "runs").iterdir()) == ["a", "b"]
    assert not (tmp_path / "set").exists()
