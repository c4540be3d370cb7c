"""`eval()` and its kin as people call them from scripts, terminals and notebooks."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

import labrunner.log
from labrunner import Epochs
from labrunner.errors import InputError
from labrunner.evaluation.evaluate import eval as evaluate
from labrunner.evaluation.evaluate import eval_retry
from labrunner.log import list_eval_logs, read_eval_log, recover_eval_log, recoverable_eval_logs
from tests.kit.solve.authoring import answering, make_task, run, samples, write_task
from tests.kit.solve.scripting import script

FAILING = """
@solver
def picky():
    async def solve(state, generate):
        if state.input_text == "b":
            raise ValueError("not this one")
        return await generate(state)
    return solve

@task
def letters():
    return Task(dataset=[Sample(input=c, target=c) for c in "abc"], solver=picky(), scorer=includes())
"""


def test_the_environment_names_folder_and_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = write_task(tmp_path, FAILING)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LAB_LOG_DIR", str(tmp_path / "logs"))
    monkeypatch.setenv("LAB_MODEL", "mock/say=a mock/echo")

    logs = evaluate(str(file), fail_on_error=False, display=False)

    assert [log.eval.model for log in logs] == ["mock/say=a", "mock/echo"]
    assert len(list_eval_logs()) == 2
    assert recoverable_eval_logs() == []
    assert read_eval_log("last").location == logs[1].location
    name = Path(logs[0].location).name
    assert Path(eval_retry(name, fail_on_error=False, display=False)[0].location).parent == tmp_path / "logs"
    assert not (tmp_path / ".lab").exists()


def test_a_model_that_is_given_goes_before_that_of_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAB_MODEL", "mock/say=x")
    assert run(make_task(samples("a")), tmp_path, "mock/echo").eval.model == "mock/echo"


def test_a_log_is_recovered_in_a_loop_that_runs_already(tmp_path: Path) -> None:
    file = write_task(tmp_path, FAILING)
    crashed = script(
        tmp_path,
        f"import labrunner; labrunner.eval({str(file)!r}, 'mock/echo', run_id='x', fail_on_error=False)",
        LAB_DIE_AT="commit.rows_synced:1",
    )
    assert crashed.returncode != 0

    async def notebook() -> None:
        with pytest.raises(RuntimeError, match=r"await recover_eval_log_async\(\.\.\.\)"):
            recover_eval_log(tmp_path / ".lab/runs/x")
        log = await labrunner.log.recover_eval_log_async(tmp_path / ".lab/runs/x")
        assert log.status == "error"

    asyncio.run(notebook())


def test_a_shown_run_tells_its_results_and_which_samples_failed(tmp_path: Path) -> None:
    file = write_task(tmp_path, FAILING)
    call = f"import labrunner; labrunner.eval({str(file)!r}, 'mock/echo', fail_on_error=False, display=%s)"

    shown = script(tmp_path, call % "True")
    hidden = script(tmp_path, call % "False")

    assert "success" in shown.stdout
    assert "1 trial without a grade (solver 1)" in shown.stdout
    assert "lab show" in shown.stdout
    assert hidden.stdout == ""
    assert "1 of 3 samples failed and have no score: lab show " in hidden.stderr


@pytest.mark.parametrize(("display", "is_shown"), [("none", False), ("plain", True), ("full", True)])
def test_display_is_named_as_people_know_it(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], display: Any, is_shown: bool
) -> None:
    evaluate(make_task(samples("a")), "mock/echo", log_dir=tmp_path, display=display)
    told = capfd.readouterr()
    assert bool(told.err) is bool(told.out) is is_shown


def test_a_display_that_there_is_not_is_refused(tmp_path: Path) -> None:
    loud: Any = "loud"
    with pytest.raises(InputError, match="display: expected true, false, 'none'"):
        evaluate(make_task(samples("a")), "mock/echo", log_dir=tmp_path, display=loud)


def test_what_eval_raises_is_told_without_the_search_for_a_loop(tmp_path: Path) -> None:
    ended = script(tmp_path, "import labrunner; labrunner.eval('nowhere.py', 'mock/echo')")
    assert "nowhere.py: there is no such file" in ended.stderr
    assert "During handling" not in ended.stderr
    assert "no running event loop" not in ended.stderr


def test_epochs_with_their_reducers_may_be_given_for_a_run(tmp_path: Path) -> None:
    said = iter(["a", "x", "x"])
    task = make_task(samples("a"), epochs=1)
    log = run(task, tmp_path, answering(lambda _: next(said)), epochs=Epochs(3, ["max", "pass_at_2"]))
    assert [sample.epoch for sample in log.samples] == [1, 2, 3]
    assert log.results.metrics["accuracy"].value == 1.0
    assert {each.reducer for each in log.results.scores} == {"max", "pass_at_2"}


def test_a_retry_keeps_how_the_epochs_of_a_run_are_reduced(tmp_path: Path) -> None:
    file = write_task(tmp_path, FAILING)
    log = run(str(file), tmp_path, epochs=Epochs(2, "max"), fail_on_error=False)
    again = eval_retry(log, fail_on_error=False, display=False)[0]
    assert {each.reducer for each in again.results.scores} == {"max"}
