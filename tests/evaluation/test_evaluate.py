import asyncio
import json
import threading
from pathlib import Path
from typing import Any

import pytest

from labrunner import Epochs, Task, task
from labrunner.errors import InputError
from labrunner.evaluation.evaluate import eval as evaluate
from labrunner.evaluation.evaluate import eval_async, eval_set
from labrunner.log import EvalLog, list_eval_logs, read_eval_log
from labrunner.solve.authoring.scorer import scorer
from labrunner.solve.authoring.solver import Generate, solver
from labrunner.solve.library.scorers import exact, includes
from labrunner.solve.library.solvers import generate, system_message
from labrunner.solve.models.asking import get_model
from labrunner.solve.scoring.metrics import accuracy, mean, std
from labrunner.solve.values.sample import Sample, Target
from labrunner.solve.values.score import Score
from labrunner.solve.values.state import TaskState
from tests.kit.depot.packages import write_named_experiment, write_npm_agent
from tests.kit.solve.authoring import answering, make_task, run, samples, write_task


def test_a_task_is_solved_scored_and_logged(tmp_path: Path) -> None:
    log = run(make_task(samples("one", "two")), tmp_path)
    assert log.status == "success"
    assert log.error is None
    assert (log.results.total_samples, log.results.completed_samples) == (2, 2)
    assert log.results.metrics["accuracy"].value == 1.0
    assert [sample.id for sample in log.samples] == ["1", "2"]
    sample = log.samples[1]
    assert (sample.input, sample.epoch, sample.attempts) == ("two", 1, 1)
    assert sample.scores == {"includes": Score("C", "two", "two")}
    assert [message.role for message in sample.messages] == ["user", "assistant"]
    assert sample.output.completion == "two"
    assert sample.model_usage.total_tokens > 0
    assert log.eval.model == "mock/echo"
    assert log.location.startswith(str(tmp_path))


def test_a_wrong_answer_is_a_result_and_no_error(tmp_path: Path) -> None:
    log = run(make_task(samples("one", "two")), tmp_path, answering(lambda text: "one"))
    assert log.status == "success"
    assert log.results.metrics["accuracy"].value == 0.5
    assert [sample.score.value for sample in log.samples if sample.score] == ["C", "I"]


def test_plain_functions_of_the_state_are_solvers(tmp_path: Path) -> None:
    async def with_both(state: TaskState, generate: Generate) -> TaskState:
        return await generate(state)

    async def with_state_alone(state: TaskState) -> TaskState:
        state.output.completion += "!"
        return state

    def blocking(state: TaskState) -> TaskState:
        assert threading.current_thread() is not threading.main_thread()
        state.output.completion += "?"
        return state

    log = run(make_task(samples("hi"), solver=[with_both, with_state_alone, blocking]), tmp_path)
    sample = log.samples[0]
    assert sample.score is not None
    assert sample.score.answer == "hi!?"


def test_a_solver_that_says_completed_is_the_last_one(tmp_path: Path) -> None:
    async def finish(state: TaskState) -> TaskState:
        state.completed = True
        return state

    async def never(state: TaskState) -> TaskState:
        raise AssertionError("not to be reached")

    assert run(make_task(samples("hi"), solver=[generate(), finish, never]), tmp_path).status == "success"


def test_several_scorers_each_have_figures_and_the_first_decides(tmp_path: Path) -> None:
    log = run(make_task(samples("x b", target="b"), scorer=[includes(), exact(), includes()]), tmp_path)
    scores = log.samples[0].scores
    assert scores is not None
    assert {name: score.value for name, score in scores.items()} == {
        "includes": "C",
        "exact": "I",
        "includes1": "C",
    }
    assert {each.name: each.metrics["accuracy"].value for each in log.results.scores} == {
        "includes": 1.0,
        "exact": 0.0,
        "includes1": 1.0,
    }


def test_a_score_of_several_values_has_a_figure_for_each(tmp_path: Path) -> None:
    @scorer(metrics=[])
    def parts() -> object:
        async def score(state: TaskState, target: Target) -> Score:
            return Score({"form": 1.0, "content": 0.5})

        return score

    log = run(make_task(samples("a"), scorer=parts()), tmp_path)
    assert [each.name for each in log.results.scores] == ["parts", "parts.content", "parts.form"]
    rows = (Path(log.location) / "benchmark/scores.jsonl").read_text()
    assert json.loads(rows)["metrics"] == {"parts": 0.75, "parts.form": 1.0, "parts.content": 0.5}


def test_every_value_of_a_score_has_the_metrics_that_are_given_for_it(tmp_path: Path) -> None:
    @scorer(metrics={"form": [mean(), std()], "c*": [mean()]})
    def parts() -> object:
        async def score(state: TaskState, target: Target) -> Score:
            return Score({"form": 1.0, "content": 0.5, "other": 0})

        return score

    def told(log: EvalLog) -> list[tuple[str, list[str]]]:
        return [(each.name, list(each.metrics)) for each in log.results.scores]

    log = run(make_task(samples("a", "b"), scorer=parts()), tmp_path)
    expected = [
        ("parts.content", ["mean"]),
        ("parts.form", ["mean", "std"]),
        ("parts.other", ["accuracy", "stderr"]),
    ]
    assert told(log) == told(read_eval_log(log.location)) == expected
    assert log.results.metrics["mean"].value == 0.5


def test_metrics_of_whole_scores_stand_beside_those_of_their_values(tmp_path: Path) -> None:
    @scorer(metrics=[accuracy(), {"*": [mean()]}])
    def parts() -> object:
        async def score(state: TaskState, target: Target) -> Score:
            return Score({"form": 1.0, "content": 0.5})

        return score

    log = run(make_task(samples("a"), scorer=parts()), tmp_path)
    assert [(each.name, list(each.metrics)) for each in log.results.scores] == [
        ("parts", ["accuracy"]),
        ("parts.content", ["mean"]),
        ("parts.form", ["mean"]),
    ]


def test_epochs_are_reduced_in_several_ways(tmp_path: Path) -> None:
    async def first_only(state: TaskState) -> TaskState:
        if state.sample_id == "2" and state.epoch > 1:
            raise ValueError("no luck")
        state.output.completion = "yes" if state.epoch == 1 and state.sample_id == "1" else "no"
        return state

    task = make_task(
        samples("a", "b", target="yes"),
        solver=first_only,
        epochs=Epochs(3, ["mean", "pass_at_2"]),
        fail_on_error=False,
    )
    log = run(task, tmp_path, None)
    by_reducer = {each.reducer: each for each in read_eval_log(log.location).results.scores}
    assert by_reducer["mean"].metrics["accuracy"].value == pytest.approx(1 / 6)
    assert by_reducer["mean"].scored_samples == 2
    # Of the second sample one epoch is graded: too few to say what two would give.
    assert by_reducer["pass_at_2"].metrics["accuracy"].value == pytest.approx(2 / 3)
    assert by_reducer["pass_at_2"].scored_samples == 1
    few = run(task, tmp_path, None, epochs=1)
    assert [(each.reducer, each.scored_samples, len(each.metrics)) for each in few.results.scores] == [
        ("mean", 2, 2),
        ("pass_at_2", 0, 0),
    ]


def test_epochs_repeat_samples_and_are_reduced(tmp_path: Path) -> None:
    @solver
    def every_second() -> object:
        async def solve(state: TaskState, generate: Generate) -> TaskState:
            state.output.completion = "yes" if state.epoch % 2 else "no"
            return state

        return solve

    task = make_task(samples("q", target="yes"), solver=every_second(), epochs=Epochs(4, "max"))
    log = run(task, tmp_path, None)
    assert [sample.epoch for sample in log.samples] == [1, 2, 3, 4]
    assert log.results.scores[0].reducer == "max"
    assert log.results.metrics["accuracy"].value == 1.0
    assert run(task, tmp_path, None, epochs=2).results.total_samples == 2


def test_options_of_a_call_do_not_stay_with_the_task(tmp_path: Path) -> None:
    def broken(text: str) -> str:
        raise ValueError(text)

    task = make_task(samples("a"), fail_on_error=True)
    assert run(task, tmp_path, answering(broken), fail_on_error=False).status == "success"
    assert run(task, tmp_path, answering(broken)).status == "error"
    assert task.fail_on_error is True


def test_limit_and_sample_ids_choose_samples(tmp_path: Path) -> None:
    task = make_task([Sample(input="x", target="x", id=each) for each in ("a1", "a2", "b1")])
    assert [sample.id for sample in run(task, tmp_path, limit=2).samples] == ["a1", "a2"]
    assert [sample.id for sample in run(task, tmp_path, sample_id="a*").samples] == ["a1", "a2"]
    assert [sample.id for sample in run(task, tmp_path, sample_id=["b1"]).samples] == ["b1"]
    with pytest.raises(InputError, match="no task's id matches 'c'"):
        run(task, tmp_path, sample_id="c")


def test_duplicate_ids_are_refused_and_nothing_is_written(tmp_path: Path) -> None:
    task = make_task([Sample(input="x", id=1), Sample(input="y", id="1")])
    with pytest.raises(Exception, match="there is another task '1'"):
        run(task, tmp_path)
    assert not (tmp_path / "runs").exists()


def test_a_task_that_asks_a_model_needs_one(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="asks a model; name one"):
        run(make_task(), tmp_path, None)


def test_a_task_without_a_scorer_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="has no scorer"):
        run(Task(dataset=samples("a")), tmp_path)


def test_an_unknown_option_is_refused_with_those_that_exist(tmp_path: Path) -> None:
    with pytest.raises(
        InputError, match=r"max_connection: is no option of a run; there are: .*max_connections"
    ):
        run(make_task(), tmp_path, max_connection=3)


def test_a_list_of_tasks_and_models_gives_a_log_for_each(tmp_path: Path) -> None:
    tasks = [make_task(name="first"), make_task(name="second")]
    logs = evaluate(tasks, ["mock/echo", "mock/say=one"], log_dir=tmp_path / "runs", display=False)
    assert [(log.eval.task, log.eval.model) for log in logs] == [
        ("first", "mock/echo"),
        ("second", "mock/echo"),
        ("first", "mock/say=one"),
        ("second", "mock/say=one"),
    ]
    assert len({log.eval.run_id for log in logs}) == 4


def test_a_file_holds_tasks_with_arguments(tmp_path: Path) -> None:
    body = """
@task
def first(count: int = 2):
    return Task(dataset=[Sample(input=str(n), target=str(n)) for n in range(count)], scorer=includes())

@task(name="other")
def second():
    return Task(dataset=[Sample(input="x", target="x")], scorer=includes())
"""
    file = write_task(tmp_path, body)
    options: Any = {"log_dir": tmp_path / "runs", "display": False}
    assert [log.eval.task for log in evaluate(str(file), "mock/echo", **options)] == ["first", "other"]
    log = evaluate(f"{file}@first", "mock/echo", task_args={"count": 5}, **options)[0]
    assert log.results.total_samples == 5
    assert log.eval.task_args == {"count": 5}
    assert log.eval.task_file == str(file)
    with pytest.raises(InputError, match="there is no @task 'third'; there are: first, other"):
        evaluate(f"{file}@third", "mock/echo", **options)
    with pytest.raises(InputError, match=r"unexpected keyword argument 'many'; its parameters: count"):
        evaluate(f"{file}@first", "mock/echo", task_args={"many": 5}, **options)


def test_relative_paths_start_from_the_task_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "tasks"
    folder.mkdir()
    (folder / "data.jsonl").write_text('{"input": "q", "target": "wise"}\n')
    (folder / "system.txt").write_text("You are wise.")
    body = """
@task
def relative():
    return Task(
        dataset=json_dataset("data.jsonl"),
        solver=[system_message("system.txt"), generate()],
        scorer=includes(),
    )
"""
    write_task(folder, body)
    monkeypatch.chdir(tmp_path)
    log = run("tasks/task.py", tmp_path, answering(lambda text: "wise"))
    assert log.status == "success"
    assert log.samples[0].messages[0].content == "You are wise."
    assert Path.cwd() == tmp_path


def test_a_loop_that_runs_already_uses_the_async_form(tmp_path: Path) -> None:
    async def inside() -> str:
        with pytest.raises(RuntimeError, match="eval_async"):
            evaluate(make_task(), "mock/echo", display=False)
        logs = await eval_async(make_task(), "mock/echo", log_dir=tmp_path / "runs", display=False)
        return logs[0].status

    assert asyncio.run(inside()) == "success"


def test_eval_works_outside_the_main_thread(tmp_path: Path) -> None:
    found: list[str] = []
    thread = threading.Thread(target=lambda: found.append(run(make_task(), tmp_path).status))
    thread.start()
    thread.join()
    assert found == ["success"]


def test_sets_run_until_all_succeeded_and_go_on_where_they_were(tmp_path: Path) -> None:
    marker = tmp_path / "marker"
    body = f"""
import pathlib
@solver
def sometimes():
    async def solve(state, generate):
        marker = pathlib.Path({str(marker)!r})
        if state.input_text == "b" and not marker.exists():
            marker.touch()
            raise ValueError("not yet")
        return await generate(state)
    return solve

@task
def flaky():
    return Task(dataset=[Sample(input=c, target=c) for c in "abc"], solver=sometimes(), scorer=includes())
"""
    file = write_task(tmp_path, body)
    is_done, logs = eval_set(str(file), tmp_path / "set", "mock/echo", retry_wait=0.0, display=False)
    assert is_done
    assert [log.status for log in logs] == ["success"]
    assert [info.status for info in list_eval_logs(tmp_path / "set")] == ["success", "error"]
    again, logs = eval_set(str(file), tmp_path / "set", "mock/echo", retry_wait=0.0, display=False)
    assert again
    assert len(list_eval_logs(tmp_path / "set")) == 2


def test_custom_metrics_are_computed_where_their_code_is_at_hand(tmp_path: Path) -> None:
    from labrunner.solve.values.score import metric

    @metric
    def worst() -> object:
        return min

    @scorer(metrics=[worst()])
    def half() -> object:
        async def score(state: TaskState, target: Target) -> Score:
            return Score(0.5 if state.sample_id == "1" else 0.75)

        return score

    log = run(make_task(scorer=half()), tmp_path)
    assert log.results.metrics["worst"].value == 0.5
    assert read_eval_log(log).results.metrics == {}


def test_a_model_that_fails_its_preflight_starts_no_run(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there is no mock model 'nobody'"):
        run(make_task(), tmp_path, "mock/nobody")
    assert not (tmp_path / "runs").exists()


def test_same_task_gives_the_same_committed_bytes_at_any_concurrency(tmp_path: Path) -> None:
    texts = [f"text {n}" for n in range(30)]
    task = make_task(samples(*texts), solver=[system_message("Be brief."), generate()])
    committed = (
        "commits.jsonl",
        "benchmark/predictions.jsonl",
        "benchmark/scores.jsonl",
        "facts/trials.jsonl",
    )
    found = []
    for number, concurrency in enumerate((1, 16)):
        log = run(task, tmp_path / str(number), run_id="same", max_concurrency=concurrency)
        found.append([(Path(log.location) / name).read_bytes() for name in committed])
    assert found[0] == found[1]


def test_secrets_of_providers_are_masked_everywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_API_KEY", "very-secret-value")
    log = run(make_task(samples("a")), tmp_path, answering(lambda text: "it is very-secret-value"))
    assert log.samples[0].output.completion == "it is [masked:SOME_API_KEY]"
    for path in Path(log.location).rglob("*"):
        if path.is_file():
            assert b"very-secret-value" not in path.read_bytes(), path


def test_no_text_of_a_score_holds_a_secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_API_KEY", "very-secret-value")
    said = "it is very-secret-value"

    @scorer(metrics=[accuracy()])
    def talkative() -> object:
        async def score(state: TaskState, target: Target) -> Score:
            del state, target
            return Score("C", answer=said, explanation=said, metadata={"a": [{said: said}]})

        return score

    log = run(make_task(samples("a"), scorer=talkative()), tmp_path)

    scores = log.samples[0].scores
    assert scores is not None
    assert scores["talkative"].metadata == {
        "a": [{"it is [masked:SOME_API_KEY]": "it is [masked:SOME_API_KEY]"}]
    }
    for path in Path(log.location).rglob("*"):
        if path.is_file():
            assert b"very-secret-value" not in path.read_bytes(), path


def test_get_model_asks_other_models_beside_the_trials_own(tmp_path: Path) -> None:
    @solver
    def two_models() -> object:
        async def solve(state: TaskState, generate: Generate) -> TaskState:
            other = await get_model("mock:say=other").generate("anything")
            own = await get_model().generate("own")
            state.output.completion = f"{other.completion} {own.completion}"
            return state

        return solve

    log = run(make_task(samples("q", target="other own"), solver=two_models()), tmp_path)
    assert log.results.metrics["accuracy"].value == 1.0
    assert [event["model"] for event in log.samples[0].events if event["event"] == "model"] == [
        "mock/say=other",
        "mock/echo",
    ]


@task
def of_this_module(count: int = 1) -> Task:
    return make_task(samples(*(f"t{n}" for n in range(count))))


def test_a_task_function_is_run_as_it_is_and_when_called(tmp_path: Path) -> None:
    assert run(of_this_module, tmp_path, task_args={"count": 2}).results.total_samples == 2
    log = run(of_this_module(count=3), tmp_path)
    assert log.results.total_samples == 3
    assert log.eval.task_args == {"count": 3}
    assert log.eval.task_file == __file__


def test_a_function_without_task_above_it_is_refused_by_name(tmp_path: Path) -> None:
    def plain() -> Task:
        return make_task()

    with pytest.raises(InputError, match="found 'plain'"):
        run(plain, tmp_path)


def test_an_agent_that_is_not_installed_is_refused_with_what_to_type(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    write_npm_agent(tmp_path)
    file = write_named_experiment(tmp_path, "use: ./obedient.yaml, model: main/gpt-5") / "experiment.yaml"
    told = rf"obedient==1\.0\.0; try: lab agents install {tmp_path}/obedient\.yaml==1\.0\.0$"
    with pytest.raises(InputError, match=told):
        evaluate(file, log_dir=tmp_path / "runs")
    assert not (tmp_path / "cache").exists()
    assert not (tmp_path / "runs").exists()
