"""Foreign task folders that another package turns into experiments."""

import json
from pathlib import Path

import pytest

from labrunner import eval
from labrunner.experiment.sources.importers import split_import
from tests.kit.cli.calling import lab, write_experiment
from tests.kit.extending.extras import write_extras
from tests.kit.extending.packages import write_package


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = write_experiment(tmp_path / "fruit", tasks=1)
    (folder / "experiment.yaml").unlink()
    (folder / "words.txt").write_text("apple pear")
    return folder


def test_a_foreign_folder_is_run_and_the_run_knows_where_it_came_from(folder: Path, tmp_path: Path) -> None:
    env = write_extras(tmp_path / "site")
    answer = lab("run", "words:fruit", "--replications", "2", cwd=tmp_path, env=env)
    assert answer.code == 0, answer.err
    (run,) = tmp_path.glob(".lab/runs/*/run.json")
    experiment = json.loads(run.read_text())["experiment"]
    assert (experiment["name"], experiment["source"]) == ("fruit", f"words:{folder}")
    retried = lab("retry", "last", cwd=tmp_path, env=env)
    assert retried.code == 0, retried.err


def test_the_plan_of_an_import_is_what_would_run(folder: Path, tmp_path: Path) -> None:
    env = write_extras(tmp_path / "site")
    plan = lab("plan", f"words:{folder}", "--json", "--task-id", "pear", cwd=tmp_path, env=env).json()
    assert [task["id"] for task in plan["tasks"]] == ["pear"]
    assert plan["experiment"]["variants"][0]["agent"]["dir"]["path"] == str(folder / "agent")


def test_eval_imports_too(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(write_extras(tmp_path / "site")["PYTHONPATH"]))
    (log,) = eval(f"words:{folder}", log_dir=str(tmp_path / "logs"), display="none")
    assert log.status == "success"


def test_what_an_importer_says_is_checked_as_strictly_as_a_file(folder: Path, tmp_path: Path) -> None:
    text = (
        "from labrunner.extension import Imported\n"
        "def read(path): return Imported(fields={'name': 7, 'agnt': {}, 'tasks': []}, folder=path)\n"
    )
    points = {"labrunner.importers": {"sloppy": "lab_sloppy:read"}}
    site = write_package(tmp_path / "site", "lab-sloppy", {"lab_sloppy.py": text}, points)
    answer = lab("plan", "sloppy:fruit", cwd=tmp_path, env={"PYTHONPATH": str(site)})
    assert answer.code == 2
    assert "sloppy:fruit: name: must be text, found the number 7" in answer.err
    assert "sloppy:fruit: agnt: there is no such field; did you mean 'agent'?" in answer.err


@pytest.mark.parametrize(
    ("target", "told"),
    [
        (
            "fleet:fruit",
            "known: harbor, harbor-job, swe-bench, terminal-bench (built in); words (lab-extras 2.1)",
        ),
        ("words:nowhere", "words:nowhere: there is nothing at nowhere"),
        ("words:.", "is no folder of words: it has no words.txt"),
    ],
)
def test_what_can_not_be_imported_is_told(folder: Path, tmp_path: Path, target: str, told: str) -> None:
    answer = lab("plan", target, cwd=tmp_path, env=write_extras(tmp_path / "site"))
    assert answer.code == 2
    assert told in answer.err


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("def read(path): return {'name': 'x'}", "the importer 'bad' must give an Imported, found a dict"),
        ("def read(path): return 1 / 0", "the importer 'bad' failed: ZeroDivisionError"),
        ("read = 7", "must be a function from a Path to an Imported, found a int"),
        (
            "from labrunner.extension import Imported\n"
            "def read(path): return Imported(fields={'extends': 'x.yaml'}, folder=path)",
            "the importer 'bad' can't use extends",
        ),
    ],
)
def test_an_importer_that_does_not_keep_to_the_door_is_named(tmp_path: Path, text: str, told: str) -> None:
    points = {"labrunner.importers": {"bad": "lab_bad:read"}}
    site = write_package(tmp_path / "site", "lab-bad", {"lab_bad.py": text}, points)
    answer = lab("plan", "bad:.", cwd=tmp_path, env={"PYTHONPATH": str(site)})
    assert answer.code == 2
    assert told in answer.err
    assert "Traceback" not in answer.err


def test_a_file_with_a_colon_in_its_name_is_a_file(tmp_path: Path) -> None:
    folder = write_experiment(tmp_path / "e", tasks=1)
    (folder / "experiment.yaml").rename(folder / "words:mine.yaml")
    plan = lab("plan", "words:mine.yaml", "--json", cwd=folder, env=write_extras(tmp_path / "site")).json()
    assert plan["experiment"]["name"] == "shout"


@pytest.mark.parametrize("target", ["C:\\tasks\\x.yaml", "x.yaml", "words:", "../a:b/x.yaml", ":x"])
def test_a_path_is_no_import(target: str) -> None:
    assert split_import(target) is None
