import shlex
from pathlib import Path

import pytest

from labrunner.cli.keeping.init import NEXT
from tests.kit.cli.calling import lab


@pytest.mark.bwrap
@pytest.mark.parametrize("template", sorted(set(NEXT) - {"docker"}))  # that one: tests/docker
def test_what_init_writes_runs_as_it_is(tmp_path: Path, template: str) -> None:
    written = lab("init", "fresh", "--template", template, cwd=tmp_path)
    assert written.code == 0, written.err
    assert f"next: cd fresh && {NEXT[template]}" in written.out
    run = lab(*shlex.split(NEXT[template])[1:], cwd=tmp_path / "fresh")

    shown = lab("plan", *shlex.split(NEXT[template])[2:], "--json", cwd=tmp_path / "fresh")
    assert '"kind":"bubblewrap"' in shown.out.replace(" ", "")
    assert run.code == 0, run.err
    totals = lab("show", "last", "--json", cwd=tmp_path / "fresh").json()["summary"]["totals"]
    assert totals["error"] == 0
    assert totals["pass"] > 0
    assert totals["fail"] > 0


def test_init_overwrites_nothing(tmp_path: Path) -> None:
    (tmp_path / "experiment.yaml").write_text("mine")

    refused = lab("init", cwd=tmp_path)

    assert refused.code == 2
    assert (tmp_path / "experiment.yaml").read_text() == "mine"
    assert [path.name for path in tmp_path.iterdir()] == ["experiment.yaml"]


def test_where_there_are_only_python_tasks_run_says_how_to_name_one(tmp_path: Path) -> None:
    lab("init", "--template", "python", cwd=tmp_path)

    refused = lab("run", cwd=tmp_path)

    assert refused.code == 2
    assert "for a task in Python, name it: lab run files.py" in refused.err


def test_what_to_type_next_can_be_typed(tmp_path: Path) -> None:
    written = lab("init", "my folder's", cwd=tmp_path)

    command = next(line for line in written.out.splitlines() if line.startswith("next: ")).removeprefix(
        "next: "
    )
    assert shlex.split(command) == ["cd", "my folder's", "&&", "lab", "run"]


def test_a_place_that_can_not_hold_it_is_told_in_words(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("a file")

    refused = lab("init", "taken", cwd=tmp_path)

    assert (refused.code, refused.err) == (3, "lab init: writing an experiment to taken: not a directory\n")
