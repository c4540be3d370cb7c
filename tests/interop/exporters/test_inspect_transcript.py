"""The run of a Python task is exported with its conversations, and opened by the real package."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from labrunner.interop.exporters.inspect_transcript import LONG
from labrunner.interop.registry import export
from labrunner.log import EvalLog as Log
from labrunner.runner.reports.lookup import read_in_full
from labrunner.solve.authoring.scorer import scorer
from labrunner.solve.authoring.solver import Generate
from labrunner.solve.library.scorers import includes
from labrunner.solve.library.solvers import generate, system_message, use_tools
from labrunner.solve.models.asking import mock_model
from labrunner.solve.scoring.metrics import mean
from labrunner.solve.values.messages import ModelOutput
from labrunner.solve.values.sample import Sample, Target
from labrunner.solve.values.score import Score
from labrunner.solve.values.state import TaskState
from labrunner.solve.values.tool import ToolError, tool
from labrunner.store.layout import RunPaths
from tests.kit.solve.authoring import make_task, run

if TYPE_CHECKING:
    from inspect_ai.log import EvalLog, EvalSample

pytestmark = pytest.mark.filterwarnings("ignore")  # the other package's own
QUESTION = "How much is it, " + "really " * 30 + "?"


@tool
def halve() -> object:
    async def execute(number: int) -> int:
        """Halve a number.

        Args:
            number: The number.
        """
        if number % 2:
            raise ToolError("it is odd")
        return number // 2

    return execute


@scorer(metrics={"*": [mean()]})
def parts() -> object:
    async def score(state: TaskState, target: Target) -> Score:
        return Score({"form": 1.0, "content": 0.5}, explanation="half of it", metadata={"seen": True})

    return score


def answer(request: Any) -> ModelOutput | str:
    turn = sum(message.role == "assistant" for message in request.messages)
    if turn < 2:
        return ModelOutput.for_tool_call("m", "halve", {"number": 7 + turn})
    return "It is 4."


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Log:
    """Of two samples the second fails once, after it has asked, and is tried again."""
    failed: list[str] = []

    async def stumble(state: TaskState, generate: Generate) -> TaskState:
        if state.sample_id == "2" and not failed:
            failed.append(state.sample_id)
            await generate(state, "none")
            raise ValueError("stumbled")
        return state

    task = make_task(
        [Sample(input=QUESTION, target="4"), Sample(input="again", target="5")],
        solver=[system_message("Be exact."), use_tools(halve()), stumble, generate(temperature=0.5)],
        scorer=[includes(), parts()],
        retry_on_error=1,
    )
    return run(task, tmp_path_factory.mktemp("runs"), mock_model(answer))


@pytest.fixture(scope="module")
def exported(log: Log, tmp_path_factory: pytest.TempPathFactory) -> "EvalLog":
    from inspect_ai.log import read_eval_log

    folder = tmp_path_factory.mktemp("logs")
    (made,) = export(read_in_full(RunPaths(Path(log.location))), "inspect", folder / "one.eval")
    return read_eval_log(str(made), resolve_attachments=True)


def samples(exported: "EvalLog") -> "list[EvalSample]":
    assert exported.samples is not None
    return exported.samples


def test_messages_arrive_as_the_solver_left_them(log: Log, exported: "EvalLog") -> None:
    for ours, theirs in zip(log.samples, samples(exported), strict=True):
        assert [(each.role, each.content) for each in ours.messages] == [
            (each.role, each.text) for each in theirs.messages
        ]
    calls: Any = getattr(samples(exported)[0].messages[2], "tool_calls", None)
    assert [(call.function, call.arguments) for call in calls] == [("halve", {"number": 7})]
    results: Any = [each for each in samples(exported)[0].messages if each.role == "tool"]
    assert [(each.function, each.error and each.error.message) for each in results] == [
        ("halve", "it is odd"),
        ("halve", None),
    ]
    assert results[0].tool_call_id == calls[0].id


def test_calls_of_models_and_tools_are_events(exported: "EvalLog") -> None:
    events: Any = samples(exported)[0].events
    assert [event.event for event in events if event.event != "info"] == [
        "sample_init", "model", "tool", "model", "tool", "model", "score", "score",
    ]  # fmt: skip
    models = [event for event in events if event.event == "model"]
    assert len(QUESTION) > LONG
    assert [message.text for message in models[-1].input][:2] == ["Be exact.", QUESTION]
    assert [len(event.input) for event in models] == [2, 4, 6]
    assert models[0].config.temperature == 0.5
    assert [each.name for each in models[0].tools] == ["halve"]
    assert models[-1].output.completion == "It is 4."
    assert models[0].output.stop_reason == "tool_calls"
    assert [event.output.usage and event.output.usage.total_tokens > 0 for event in models] == [
        None,
        None,
        True,
    ]
    tools = [event for event in events if event.event == "tool"]
    assert [(event.arguments, event.result) for event in tools] == [({"number": 7}, ""), ({"number": 8}, "4")]
    assert tools[0].error.message == "it is odd"
    assert models[0].timestamp <= tools[0].timestamp <= models[1].timestamp


def test_an_attempt_that_failed_keeps_its_transcript(exported: "EvalLog") -> None:
    (error,) = samples(exported)[1].error_retries or []
    assert error.message == "solver (ValueError): solving: ValueError: stumbled"
    assert [event.event for event in error.events or [] if event.event != "info"] == ["model", "error"]


def test_an_attempt_that_failed_before_a_word_was_said_arrives(tmp_path: Path) -> None:
    from inspect_ai.log import read_eval_log

    async def stumble(state: TaskState) -> TaskState:
        raise ValueError("stumbled")

    task = make_task([Sample(input="why?")], solver=stumble, fail_on_error=False)
    paths = RunPaths(Path(run(task, tmp_path).location))
    (made,) = export(read_in_full(paths), "inspect", tmp_path / "one.eval")
    (found,) = samples(read_eval_log(str(made)))
    assert [(message.role, message.text) for message in found.messages] == [("user", "why?")]
    assert [event.event for event in found.events if event.event != "info"] == ["sample_init", "error"]
    assert found.error is not None


def test_every_scorer_has_its_score_and_figures(log: Log, exported: "EvalLog") -> None:
    first, second = samples(exported)
    assert first.scores is not None
    assert second.scores is not None
    assert [first.scores["includes"].value, second.scores["includes"].value] == ["C", "I"]
    assert (first.scores["includes"].metadata or {})["verdict"] == "pass"
    told = first.scores["parts"]
    assert (told.value, told.explanation, told.metadata) == (
        {"form": 1.0, "content": 0.5}, "half of it", {"seen": True},
    )  # fmt: skip
    assert exported.results is not None
    found = {
        each.name: {name: metric.value for name, metric in each.metrics.items()}
        for each in exported.results.scores
    }
    assert found["includes"]["accuracy"] == found["includes"]["mean"] == 0.5
    assert (found["parts.form"], found["parts.content"]) == ({"mean": 1.0}, {"mean": 0.5})
    assert [each.name for each in exported.results.scores] == [each.name for each in log.results.scores]
    assert exported.eval.model == log.eval.model
