"""A format that another package brings."""

from pathlib import Path

import pytest

from tests.kit.cli.calling import lab
from tests.kit.extending.extras import write_extras
from tests.kit.extending.packages import write_package
from tests.kit.made_runs import Told, make_grid, write_run


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    write_run(folder, make_grid(tasks=2, variants=("a",)), lambda slot: Told(value=1.0, passes=True))
    return folder


def test_a_run_leaves_in_a_foreign_format(runs: Path, tmp_path: Path) -> None:
    env = write_extras(tmp_path / "site")
    (run,) = runs.iterdir()
    answer = lab("export", run, "--to", "line", cwd=tmp_path, env=env)
    assert answer.code == 0, answer.err
    (made,) = tmp_path.glob("*.line")
    assert made.read_text() == f"{run.name}: 2 trials\n"
    assert lab("export", run, "--to", "line", "-o", "-", cwd=tmp_path, env=env).out == made.read_text()


def test_an_unknown_format_is_told_with_the_known_ones(runs: Path, tmp_path: Path) -> None:
    (run,) = runs.iterdir()
    answer = lab("export", run, "--to", "pdf", cwd=tmp_path, env=write_extras(tmp_path / "site"))
    assert answer.code == 2
    assert "--to: there is no format 'pdf'; known: inspect, csv, parquet, junit, markdown, html" in answer.err
    assert "line (lab-extras 2.1)" in answer.err


def test_an_exporter_that_is_none_is_refused(runs: Path, tmp_path: Path) -> None:
    points = {"labrunner.exporters": {"bad": "lab_bad:write"}}
    site = write_package(tmp_path / "site", "lab-bad", {"lab_bad.py": "def write(): ..."}, points)
    (run,) = runs.iterdir()
    answer = lab("export", run, "--to", "bad", cwd=tmp_path, env={"PYTHONPATH": str(site)})
    assert answer.code == 2
    assert "must be an Exporter, found a function" in answer.err
