"""What a Python task's preflight finds out about its model, whatever the code of others raises there."""

from pathlib import Path

import pytest

from labrunner import Task
from labrunner.dataset import Sample
from labrunner.experiment.options.overrides import Overrides
from labrunner.experiment.run_policy import LOCAL
from labrunner.sandbox import registry
from labrunner.scorer import includes
from labrunner.solve.models.asking import Model
from labrunner.solve.models.backend import Backend
from labrunner.solve.models.mock import MockBackend, make_mock
from labrunner.solve.origin import PythonTasks
from labrunner.solver import generate
from labrunner.trial.assignment import TrialContext


class Unpriced(MockBackend):
    """A backend whose table of prices is broken."""

    def __init__(self) -> None:
        super().__init__(lambda asked: "", "mine/m")

    def has_price(self) -> bool:
        raise LookupError("a table without a row")


async def preflight(folder: Path, model: Model, overrides: Overrides) -> list[tuple[str, bool, str]]:
    tasks = PythonTasks()
    task = Task(dataset=[Sample(id="t", input="x")], solver=generate(), scorer=includes(), model=model)
    experiment = tasks.resolve(task, overrides)
    context = TrialContext(experiment=experiment, run_id="r", trials_dir=folder, host="here", secrets={})
    executor = tasks.executor(LOCAL, context, registry.make)
    try:
        return [(check.name, check.passed, check.message) for check in await executor.preflight()]
    finally:
        await executor.close()


@pytest.mark.parametrize("error", [KeyError("region"), ModuleNotFoundError("No module named 'boto3'")])
async def test_a_model_whose_client_can_not_be_made_is_a_check_that_fails(
    tmp_path: Path, error: Exception
) -> None:
    def make() -> Backend:
        raise error

    (check,) = await preflight(tmp_path, Model("mine/m", backend=make), Overrides())
    assert check == ("model", False, f"mine/m can't be asked: {type(error).__name__}: {error}")


async def test_a_model_that_fails_over_its_price_is_a_check_that_fails(tmp_path: Path) -> None:
    overrides = Overrides(limits={"cost_usd": 1.0})
    (check,) = await preflight(tmp_path, Model("mine/m", backend=Unpriced), overrides)
    assert check == ("model", False, "mine/m can't be asked: LookupError: a table without a row")


async def test_a_model_that_can_be_made_is_a_check_that_passes(tmp_path: Path) -> None:
    found = await preflight(tmp_path, Model("mine/m", backend=lambda: make_mock("echo")), Overrides())
    assert found == [("model", True, "mine/m can be asked")]
