"""Tasks and runs for the tests of Python tasks."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from labrunner.evaluation.evaluate import eval as evaluate
from labrunner.evaluation.evaluate import eval_retry
from labrunner.log import EvalLog
from labrunner.solve.authoring.solver import Generate, solver
from labrunner.solve.library.scorers import includes
from labrunner.solve.library.solvers import generate
from labrunner.solve.models.asking import Model, mock_model
from labrunner.solve.resolving.task import Task
from labrunner.solve.values.messages import ModelOutput, ModelUsage
from labrunner.solve.values.sample import Sample
from labrunner.solve.values.state import TaskState


def samples(*texts: str, target: str = "") -> list[Sample]:
    return [Sample(input=text, target=target or text) for text in texts]


def make_task(dataset: Sequence[Sample] | None = None, **fields: Any) -> Task:
    given: dict[str, Any] = {"solver": generate(), "scorer": includes(), **fields}
    return Task(dataset=samples("one", "two", "three") if dataset is None else dataset, **given)


def run(task: Any, folder: Path, model: Any = "mock/echo", **options: Any) -> EvalLog:
    """Run one task and give its log."""
    logs = evaluate(task, model, log_dir=folder / "runs", display=False, **options)
    assert len(logs) == 1
    return logs[0]


def retry(log: EvalLog, **options: Any) -> EvalLog:
    return eval_retry(log, display=False, **options)[0]


def answering(answer: Callable[[str], Any]) -> Model:
    """A model that answers by a function of what it was told last."""
    return mock_model(lambda request: answer(request.messages[-1].content))


def write_task(folder: Path, body: str, name: str = "task.py") -> Path:
    """Write a task file with the usual imports."""
    head = (
        "import asyncio\n"
        "from labrunner import Task, task, Epochs\n"
        "from labrunner.dataset import Sample, MemoryDataset, json_dataset, csv_dataset\n"
        "from labrunner.model import *\n"
        "from labrunner.solver import *\n"
        "from labrunner.scorer import *\n"
        "from labrunner.tool import *\n\n"
    )
    path = folder / name
    path.write_text(head + body)
    return path


def in_sandbox(work: object) -> object:
    """A solver that works in its sandbox and says what it found."""

    @solver
    def working() -> object:
        async def solve(state: TaskState, generate: Generate) -> TaskState:
            state.output.completion = await work()  # type: ignore[operator] # an async function
            return state

        return solve

    return working()


def spending(tokens: int, cost: float | None = None) -> Model:
    """A model whose every answer costs the same."""

    def answer(request: object) -> ModelOutput:
        output = ModelOutput.from_content("mock/spend", "answer")
        output.usage = ModelUsage(output_tokens=tokens, total_tokens=tokens, cost_usd=cost)
        return output

    return mock_model(answer, "mock/spend")
