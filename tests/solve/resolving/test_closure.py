"""What a Python task is made of: the modules of its own project, and nothing else."""

import multiprocessing
import sys
from pathlib import Path

import pytest

from labrunner.experiment.options.overrides import Overrides
from labrunner.experiment.resolved import Program
from labrunner.solve.origin import PythonTasks
from labrunner.solve.resolving.closure import find_project
from labrunner.solve.resolving.loading import load_tasks
from labrunner.solve.resolving.task_resolution import resolve_task
from tests.kit.solve.authoring import make_task, write_task

BODY = """
import msgspec, json, labrunner.log
from {name} import word
from {name}_kit import deep
from {name}_kit.tools import *

@task
def one():
    def late():
        import {name}_late
    return Task(dataset=[Sample(input=word, target=word)], scorer=includes())
"""


def write_project(folder: Path, name: str, root: Path | None = None) -> Path:
    """Write a task with modules of every kind; their names are the test's own, since a process keeps them."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.py").write_text("word = 'hi'\n")
    kit = folder / f"{name}_kit"
    kit.mkdir()
    (kit / "__init__.py").write_text("")
    (kit / "deep.py").write_text("from . import deeper\n")
    (kit / "deeper.py").write_text(f"import importlib\nfound = importlib.import_module('{name}_' + 'plug')\n")
    (kit / "tools.py").write_text(f"from .deep import deeper\nimport {name}_outside\n")
    (kit / "unused.py").write_text("")
    (folder / f"{name}_plug.py").write_text("")
    (folder / f"{name}_late.py").write_text("")
    (root or folder).joinpath(f"{name}_outside.py").write_text("")
    return write_task(folder, BODY.format(name=name))


def program(file: Path) -> Program:
    found = (
        resolve_task(load_tasks(str(file))[0], Overrides(model="mock/echo")).experiment.variants[0].program
    )
    assert found is not None
    return found


def modules(file: Path) -> set[str]:
    return set(program(file).modules)


def elsewhere(file: Path) -> str:
    """The digest of a file's task, computed by another process, which has loaded nothing of it before."""
    with multiprocessing.get_context("fork").Pool(1) as pool:
        return str(pool.apply(_digest, (str(file),)))


def _digest(file: str) -> str:
    return PythonTasks().load(file, Overrides(model="mock/echo"))[0].digest


def test_every_module_of_the_project_that_is_reached_counts_and_no_other(tmp_path: Path) -> None:
    file = write_project(tmp_path, "ca")
    kit = {"ca_kit", "ca_kit.deep", "ca_kit.deeper", "ca_kit.tools"}
    assert modules(file) == {"ca", "ca_late", "ca_plug", "ca_outside"} | kit


def test_an_edit_of_any_of_them_changes_what_the_task_is_and_a_comment_does_not(tmp_path: Path) -> None:
    file = write_project(tmp_path, "cb")
    before = elsewhere(file)
    paths = [tmp_path / name for name in ("cb.py", "cb_late.py", "cb_plug.py", "cb_kit/deeper.py", "task.py")]
    for path in paths:
        path.write_text(f"# only a remark\n{path.read_text()}\n\n")
    (tmp_path / "cb_kit/unused.py").write_text("MORE = 1\n")
    assert elsewhere(file) == before
    for path in paths:
        kept = path.read_text()
        path.write_text(f"{kept}\nMORE = 1\n")
        assert elsewhere(file) != before, path
        path.write_text(kept)


def test_the_project_begins_at_its_mark(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("")
    inner = tmp_path / "evals" / "letters"
    file = write_project(inner, "cc", root=inner)
    assert find_project(file) == tmp_path
    assert find_project(inner / "cc.py") == tmp_path
    assert "cc" in modules(file)
    (inner / "setup.py").write_text("")
    assert find_project(file) == inner


def test_what_is_installed_inside_the_project_does_not_count(tmp_path: Path) -> None:
    packages = tmp_path / ".venv" / "lib" / "site-packages"
    packages.mkdir(parents=True)
    (packages / "cd_installed.py").write_text("")
    sys.path.append(str(packages))
    try:
        file = write_task(
            tmp_path,
            "import cd_installed\n@task\ndef one():\n    return Task([Sample(input='a')], scorer=exact())\n",
        )
        assert modules(file) == set()
    finally:
        sys.path.remove(str(packages))


def test_tasks_that_share_a_process_keep_their_own_modules_of_one_name(tmp_path: Path) -> None:
    body = "import ce\n@task\ndef one():\n    return Task([Sample(input=ce.word)], scorer=includes())\n"
    files = []
    for word in ("first", "second"):
        (tmp_path / word).mkdir()
        (tmp_path / word / "ce.py").write_text(f"word = {word!r}\n")
        files.append(write_task(tmp_path / word, body))

    loaded = [load_tasks(str(file))[0].dataset[0].input for file in (*files, files[0])]

    assert loaded == ["first", "second", "first"]
    assert program(files[0]).modules != program(files[1]).modules


def test_what_is_loaded_counts_not_what_was_edited_since(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "cf.py").write_text("word = 'old'\n")
    body = "import cf\n@task\ndef one():\n    return Task([Sample(input=cf.word)], scorer=includes())\n"
    file = write_task(tmp_path, body)
    before = program(file).modules
    (tmp_path / "cf.py").write_text("word = 'new'  # longer: Python tells bytecode by size and second\n")
    assert load_tasks(str(file))[0].dataset[0].input == "old"
    assert program(file).modules == before
    assert "cf.py was edited since this process loaded it" in caplog.text
    import importlib

    importlib.reload(sys.modules["cf"])
    assert load_tasks(str(file))[0].dataset[0].input == "new"
    assert program(file).modules != before


def test_a_task_without_a_file_is_made_of_what_its_solvers_stand_in() -> None:
    async def mine(state, generate):  # type: ignore[no-untyped-def]
        return state

    found = resolve_task(make_task(solver=mine), Overrides(model="mock/echo")).experiment.variants[0].program
    assert found is not None
    assert __name__ in found.modules
    plain = resolve_task(make_task(), Overrides(model="mock/echo")).experiment.variants[0].program
    assert plain is not None
    assert plain.modules == {}
