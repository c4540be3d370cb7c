"""Where tests stand, and whom they ask: the tests' own tree."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.house.reading import read_house

TESTS = Path(__file__).parents[1]
ACROSS = {"bench", "crash", "docs", "examples", "extension", "house", "kit"}
"""Rooms of tests that are about no room of the source."""


def files() -> list[Path]:
    return sorted(path.relative_to(TESTS) for path in TESTS.rglob("*.py"))


def find_misplaced(tests: list[Path], modules: dict[str, set[str]]) -> list[str]:
    """Tests that are named like a module, and stand elsewhere."""
    found = []
    for path in tests:
        name = path.stem.removeprefix("test_")
        here = ".".join(path.parent.parts)
        rooms = modules.get(name, set()) | modules.get(f"{name}_", set())
        if path.stem != name and path.parts[0] not in ACROSS and rooms and here not in rooms:
            found.append(f"{path}: a module of this name stands in {', '.join(sorted(rooms))}")
    return found


def imports(text: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Import(names=names):
                yield from (alias.name for alias in names)
            case ast.ImportFrom(module=str(module), names=names):
                yield from (f"{module}.{alias.name}" for alias in names)
            case ast.Constant(value=str(code)) if "import" in code and code.strip() != text.strip():
                yield from _imports_of_code(code)


def _imports_of_code(code: str) -> Iterator[str]:
    """What programs import that a test writes down and runs elsewhere."""
    for line in code.splitlines():
        match line.split():
            case ["from", module, "import", *_] | ["import", module, *_]:
                yield module
            case _:
                pass


def is_a_test(dotted: str) -> bool:
    parts = dotted.split(".")
    if parts[0] != "tests" or parts[1:2] == ["kit"]:
        return False
    return any(part == "conftest" or part.startswith("test_") for part in parts)


def test_a_test_named_like_a_module_stands_where_the_module_stands() -> None:
    modules: dict[str, set[str]] = {}
    for module in read_house().values():
        if not module.is_package:
            modules.setdefault(module.stem, set()).add(module.name.rpartition(".")[0])
    assert find_misplaced(files(), modules) == []
    assert find_misplaced([Path("cli/test_queue.py")], {"queue": {"runner.sitting"}}) != []


def test_every_folder_below_a_room_of_tests_is_a_room() -> None:
    rooms = {module.name for module in read_house().values() if module.is_package}
    folders = {".".join(path.parent.parts) for path in files() if path.parts[0] not in ACROSS}
    assert folders - rooms == set()


def test_no_test_stands_in_the_kit_and_nothing_else_outside_it() -> None:
    """But for what pytest itself looks for."""
    for path in files():
        is_test = path.stem.startswith("test_") or path.name == "conftest.py"
        assert is_test != (path.parts[0] == "kit"), path


def test_nothing_is_imported_from_tests() -> None:
    asked = {
        path: [dotted for dotted in imports((TESTS / path).read_text("utf-8")) if is_a_test(dotted)]
        for path in files()
        if TESTS / path != Path(__file__)  # it names what it looks for
    }
    assert {path: found for path, found in asked.items() if found} == {}


@pytest.mark.parametrize(
    "text",
    [
        "from tests.cli.carrying.test_run import wait_for",
        "import tests.cli.carrying.test_run",
        "from tests.cli.carrying import test_run",
        "def f():\n    from tests.sandbox.conftest import need_bwrap",
        "CODE = 'import sys\\nfrom tests.analysis.test_summary import make'",
    ],
)
def test_every_way_to_import_a_test_is_seen(text: str) -> None:
    assert any(map(is_a_test, imports(text)))
