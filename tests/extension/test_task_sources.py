"""Tasks from where another package reads them."""

import json
from pathlib import Path

import pytest

from tests.kit.cli.calling import lab, write_experiment
from tests.kit.extending.extras import write_extras
from tests.kit.extending.packages import write_package


def asking(folder: Path, tasks: str) -> Path:
    write_experiment(folder, tasks=1)
    file = folder / "experiment.yaml"
    file.write_text(file.read_text().replace("tasks: tasks.jsonl", f"tasks: {tasks}"))
    return folder


@pytest.mark.parametrize(
    ("tasks", "ids"),
    [
        ("counted:2", ["n0", "n1"]),
        ("{file: 'counted:3', exclude: [n1]}", ["n0", "n2"]),
        ("list.words", ["apple", "pear"]),
    ],
)
def test_a_run_of_tasks_from_a_foreign_source_keeps_them(tmp_path: Path, tasks: str, ids: list[str]) -> None:
    folder = asking(tmp_path / "e", tasks)
    (folder / "list.words").write_text("apple\npear\n")
    answer = lab("run", cwd=folder, env=write_extras(tmp_path / "site"))
    assert answer.code == 0, answer.err
    recorded = [
        json.loads(line)
        for path in folder.glob(".lab/**/tasks.jsonl")
        for line in path.read_text().splitlines()
    ]
    assert [task["id"] for task in recorded] == ids


def test_a_bad_row_is_told_with_the_place_that_the_source_gives(tmp_path: Path) -> None:
    answer = lab("plan", cwd=asking(tmp_path / "e", "counted:8"), env=write_extras(tmp_path / "site"))
    assert answer.code == 2
    assert "counted: number 7: id: ids are text, found the number 8" in answer.err


def test_what_a_source_says_of_the_whole_is_told_with_the_field(tmp_path: Path) -> None:
    answer = lab("plan", cwd=asking(tmp_path / "e", "counted:many"), env=write_extras(tmp_path / "site"))
    assert answer.code == 2
    assert "experiment.yaml:3: tasks: counted: expected a number, found 'many'" in answer.err


@pytest.mark.parametrize(
    ("tasks", "told"),
    [
        (
            "sheet:7",
            "tasks: 'sheet:7' can't be read: there is no task source 'sheet'; known: .jsonl",
        ),
        ("tasks.xlsx", "tasks: 'tasks.xlsx' can't be read: there is no task source '.xlsx'; known: .jsonl"),
    ],
)
def test_an_unknown_source_is_told_with_the_known_ones(tmp_path: Path, tasks: str, told: str) -> None:
    answer = lab("plan", cwd=asking(tmp_path / "e", tasks), env=write_extras(tmp_path / "site"))
    assert answer.code == 2
    assert told in answer.err
    assert ".words, counted (lab-extras 2.1)" in answer.err


def test_a_file_that_is_there_is_read_whatever_it_is_called(tmp_path: Path) -> None:
    folder = asking(tmp_path / "e", "'counted:2.jsonl'")
    (folder / "counted:2.jsonl").write_text('{"id": "mine", "input": "x", "target": "X"}\n')
    answer = lab("plan", "--json", cwd=folder, env=write_extras(tmp_path / "site"))
    assert [task["id"] for task in answer.json()["tasks"]] == ["mine"]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            "def read(request): return [{'id': 'x'}]",
            "'bad' must give a Row each time, found a dict",
        ),
        ("def read(request): raise KeyError('q')", "the task source 'bad' failed: KeyError: 'q'"),
        ("read = 7", "must be a function from a SourceRequest to rows, found a int"),
    ],
)
def test_a_source_that_does_not_keep_to_the_door_is_named(tmp_path: Path, text: str, told: str) -> None:
    points = {"labrunner.task_sources": {"bad": "lab_bad:read"}}
    site = write_package(tmp_path / "site", "lab-bad", {"lab_bad.py": text}, points)
    answer = lab("plan", cwd=asking(tmp_path / "e", "bad:1"), env={"PYTHONPATH": str(site)})
    assert answer.code == 2
    assert told in answer.err
    assert "Traceback" not in answer.err
