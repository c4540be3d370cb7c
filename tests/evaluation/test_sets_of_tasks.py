"""Sets of Python tasks: what is recognised as done, and what is run again."""

import asyncio
import json
from pathlib import Path

import pytest

import labrunner
from labrunner.errors import InputError
from labrunner.evaluation.evaluate import eval_set
from labrunner.log import list_eval_logs
from tests.kit.cli.calling import lab
from tests.kit.solve.authoring import make_task, retry, samples, write_task

COUNTED = """
import pathlib
@solver
def counted(marks):
    async def solve(state, generate):
        with open(marks, "a") as file:
            file.write(f"{state.model} {state.input_text}\\n")
        if str(state.model) == "mock/say=b" and not pathlib.Path(marks + ".well").exists():
            raise ValueError("not yet")
        return await generate(state)
    return solve

@task
def letters(marks: str, count: int = 2):
    dataset = [Sample(input=c, target=c) for c in "abc"[:count]]
    return Task(dataset=dataset, solver=counted(marks), scorer=includes())
"""


def test_a_set_of_one_task_with_two_models_runs_finished_work_once(tmp_path: Path) -> None:
    file, marks = write_task(tmp_path, COUNTED), tmp_path / "marks"
    arguments = {"marks": str(marks)}

    def call() -> bool:
        models = ["mock/say=a", "mock/say=b"]
        is_done, logs = eval_set(
            str(file),
            tmp_path / "set",
            models,
            task_args=arguments,
            retry_attempts=0,
            retry_on_error=0,
            display=False,
        )
        assert [log.eval.model for log in logs] == models
        return is_done

    assert not call()
    assert marks.read_text().splitlines().count("mock/say=a a") == 1
    (tmp_path / "marks.well").touch()
    assert call()
    assert call()
    assert sorted(set(marks.read_text().splitlines())) == [
        "mock/say=a a",
        "mock/say=a b",
        "mock/say=b a",
        "mock/say=b b",
    ]
    assert marks.read_text().splitlines().count("mock/say=a a") == 1
    assert marks.read_text().splitlines().count("mock/say=a b") == 1
    lineages = _lineages(tmp_path / "set")
    assert sorted(len(set(each)) for each in lineages.values()) == [1, 1]
    assert lineages["mock/say=a"][0] != lineages["mock/say=b"][0]
    assert len(list_eval_logs(tmp_path / "set")) == 3


def test_a_task_with_other_arguments_is_another_member_of_a_set(tmp_path: Path) -> None:
    file, marks = write_task(tmp_path, COUNTED), tmp_path / "marks"
    for count in (1, 2, 1, 2):
        is_done, _ = eval_set(
            str(file),
            tmp_path / "set",
            "mock/echo",
            task_args={"marks": str(marks), "count": count},
            display=False,
        )
        assert is_done
    assert len(list_eval_logs(tmp_path / "set")) == 2
    assert marks.read_text().splitlines() == ["mock/echo a", "mock/echo a", "mock/echo b"]


def test_a_run_of_a_set_can_be_retried_with_the_model_that_it_had(tmp_path: Path) -> None:
    file, marks = write_task(tmp_path, COUNTED), tmp_path / "marks"
    _, logs = eval_set(
        str(file),
        tmp_path / "set",
        ["mock/say=a", "mock/say=b"],
        task_args={"marks": str(marks)},
        retry_attempts=1,
        display=False,
    )
    (tmp_path / "marks.well").touch()
    assert retry(logs[1]).eval.model == "mock/say=b"


@pytest.mark.parametrize("attempts", [0, 1])
def test_a_set_that_may_not_retry_runs_once(tmp_path: Path, attempts: int) -> None:
    is_done, logs = eval_set(
        make_task(samples("a"), name="one"), tmp_path, "mock/echo", retry_attempts=attempts, display=False
    )
    assert is_done
    assert [log.status for log in logs] == ["success"]


def test_a_negative_number_of_attempts_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="retry_attempts: must be a whole number from 0 on"):
        eval_set(make_task(samples("a")), tmp_path, "mock/echo", retry_attempts=-3, display=False)
    file = write_task(tmp_path, COUNTED)
    once = ("set", file, "-T", "marks=marks", "--model", "mock/echo", "--retry-attempts")
    refused = lab(*once, "-3", cwd=tmp_path)
    assert refused.code == 2
    assert "--retry-attempts" in refused.err
    assert lab(*once, "0", cwd=tmp_path).code == 0
    assert (tmp_path / "marks").read_text().splitlines() == ["mock/echo a", "mock/echo b"]


def test_two_members_that_nobody_could_tell_apart_are_refused(tmp_path: Path) -> None:
    pair = [make_task(samples("a"), name="twin"), make_task(samples("b"), name="twin")]
    with pytest.raises(InputError, match="is the same task, with the same model and arguments"):
        eval_set(pair, tmp_path / "set", "mock/echo", display=False)
    assert not (tmp_path / "set").exists()


def test_a_set_runs_in_a_loop_that_runs_already(tmp_path: Path) -> None:
    async def notebook() -> None:
        task = make_task(samples("a"), name="one")
        is_done, logs = await labrunner.eval_set_async(task, tmp_path, "mock/echo", display=False)
        assert (is_done, [log.status for log in logs]) == (True, ["success"])
        with pytest.raises(RuntimeError, match=r"await eval_set_async\(\.\.\.\)"):
            eval_set(task, tmp_path, "mock/echo", display=False)

    asyncio.run(notebook())


def test_several_models_on_the_command_line_are_a_run_each(tmp_path: Path) -> None:
    file = write_task(tmp_path, COUNTED)
    words = ("-T", "marks=marks", "--model", "mock/echo", "--model", "mock/say=a", "--json")

    planned = lab("plan", file, *words, cwd=tmp_path)
    ran = lab("run", file, *words, cwd=tmp_path)
    both = lab("retry", "--model", "mock/echo", "--model", "mock/say=a", cwd=tmp_path)

    assert len(planned.out.splitlines()) == 2
    assert ran.code == 0, ran.err
    runs = [Path(json.loads(line)["run"]) for line in ran.out.splitlines()]
    kept = [json.loads((tmp_path / run / "run.json").read_text())["overrides"]["model"] for run in runs]
    assert kept == ["mock/echo", "mock/say=a"]
    assert both.code == 2
    assert "--model: a retry has one model, but 2 are named" in both.err


def _lineages(folder: Path) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for path in folder.glob("*/run.json"):
        record = json.loads(path.read_text())
        model = record["experiment"]["variants"][0]["program"]["model"]
        found.setdefault(model, []).append(record["lineage_id"])
    return found
