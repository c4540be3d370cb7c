"""There is one way to begin a sitting: whoever carries a run out goes through `runner/start.py`."""

import ast
from pathlib import Path

import pytest

import labrunner

SOURCE = Path(labrunner.__file__).parent


def find_callers(name: str) -> set[str]:
    return {
        str(file.relative_to(SOURCE))
        for file in SOURCE.rglob("*.py")
        if name in (text := file.read_text())
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == name
    }


@pytest.mark.parametrize("step", ["refuse_failed", "create_new_run", "make_plan", "Sitting", "signals_stop"])
def test_each_step_of_beginning_a_sitting_is_taken_in_one_place(step: str) -> None:
    waits = {"runner/again/sets.py"} if step == "signals_stop" else set()  # between two sittings
    assert find_callers(step) - waits == {"runner/start.py"}


def test_whoever_launches_has_checked_before() -> None:
    callers = find_callers("launch") - {"runner/resume/draining.py"}  # starts nothing that could be checked
    assert (
        callers
        == find_callers("check")
        >= {
            "runner/start.py",
            "runner/resume/continuing.py",
            "runner/again/retrying.py",
            "runner/again/regrading.py",
        }
    )
