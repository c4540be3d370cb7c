"""Retries of experiments that changed: exactly what the change touches is run, the rest is taken over."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from labrunner.records.encoding.ids import make_trial_id
from labrunner.store.checking.verification import verify
from labrunner.store.layout import RunPaths
from tests.kit.crash.driver import Job
from tests.kit.crash.driving import Driver
from tests.kit.crash.scenario import Shape, write_scenario
from tests.kit.runner.running import committed_bytes

pytestmark = pytest.mark.crash

SHAPE = Shape(tasks=4, variants=2, replications=2, retry_on_error=0)
FAILED = frozenset({make_trial_id("v1", "t3", 0), make_trial_id("v0", "t0", 1)})


@dataclass(slots=True)
class Files:
    """An experiment as its author sees it."""

    experiment: dict[str, Any]
    tasks: list[dict[str, Any]]

    @classmethod
    def read(cls, folder: Path) -> "Files":
        lines = (folder / "tasks.jsonl").read_text().splitlines()
        return cls(json.loads((folder / "experiment.yaml").read_text()), [json.loads(line) for line in lines])

    def write(self, folder: Path) -> None:
        (folder / "experiment.yaml").write_text(json.dumps(self.experiment))
        (folder / "tasks.jsonl").write_text("".join(json.dumps(task) + "\n" for task in self.tasks))

    def trials(self) -> dict[str, str]:
        """Every planned trial, with all that its result depends on."""
        return {
            make_trial_id(variant["id"], task["id"], number): json.dumps([task, variant])
            for task in self.tasks
            for variant in self.experiment["variants"]
            for number in range(self.experiment["replications"])
        }


def leave(files: Files) -> None:
    pass


def change_a_task(files: Files) -> None:
    files.tasks[1]["input"] = "something else"


def change_a_variant(files: Files) -> None:
    files.experiment["variants"][1]["bindings"]["n"] = 17


def add_a_task(files: Files) -> None:
    files.tasks.insert(1, {"id": "new", "input": 0, "target": 0})


def add_a_variant(files: Files) -> None:
    files.experiment["variants"].append({"id": "v9", "bindings": {"n": 9}})


def drop_a_task(files: Files) -> None:
    del files.tasks[0]


def drop_a_variant(files: Files) -> None:
    del files.experiment["variants"][0]


def repeat_more(files: Files) -> None:
    files.experiment["replications"] = 3


def repeat_less(files: Files) -> None:
    files.experiment["replications"] = 1


def turn_tasks_around(files: Files) -> None:
    files.tasks.reverse()


def change_everything(files: Files) -> None:
    for change in (change_a_task, add_a_task, add_a_variant, repeat_more, turn_tasks_around):
        change(files)


CHANGES = [
    *(leave, change_a_task, change_a_variant, add_a_task, add_a_variant, drop_a_task, drop_a_variant),
    *(repeat_more, repeat_less, turn_tasks_around, change_everything),
]


@pytest.mark.parametrize("change", CHANGES)
def test_a_retry_runs_what_failed_or_changed_and_ends_like_a_run_from_scratch(
    change: Callable[[Files], None], driver: Driver, tmp_path: Path
) -> None:
    folder = tmp_path / "experiment"
    experiment, runs_dir = str(write_scenario(folder, SHAPE)), str(tmp_path / "runs")
    first = Job(experiment=experiment, runs_dir=runs_dir, run_id="first", failing=FAILED)
    assert driver.run(first).code == 0
    files = Files.read(folder)
    before = files.trials()
    change(files)
    files.write(folder)
    good = {trial: content for trial, content in before.items() if trial not in FAILED}
    owed = {trial for trial, content in files.trials().items() if good.get(trial) != content}

    again = Job(
        experiment=experiment,
        runs_dir=runs_dir,
        run_id="second",
        action="retry",
        retry_of="first",
        failing=frozenset(),
    )
    heard = driver.run(again)

    assert heard.code == 0, heard.told
    assert heard.told["plan"] == [f"{len(files.trials()) - len(owed)} {len(owed)}"]
    assert sorted(trial for trial, _ in heard.agents) == sorted(owed)
    scratch = Job(
        experiment=experiment, runs_dir=str(tmp_path / "scratch"), run_id="second", failing=frozenset()
    )
    assert driver.run(scratch).code == 0
    assert committed_bytes(tmp_path / "runs/second") == committed_bytes(tmp_path / "scratch/second")
    assert verify(RunPaths(tmp_path / "runs/second")).problems == ()
