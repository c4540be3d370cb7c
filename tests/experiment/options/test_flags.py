"""Flags and variables of a run's options stand in the table, and nowhere else in the source."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import labrunner
from labrunner.experiment.options.table import OPTIONS

ROOT = Path(labrunner.__file__).parent
FLAGS = re.compile(
    "|".join(
        rf"(?<![\w-]){re.escape(form)}(?![\w-])"
        for option in OPTIONS
        for flag in option.flags
        if flag.startswith("--")
        for form in (flag, flag.replace("--", "--no-", 1))
    )
)
TABLE = ROOT / "experiment" / "options"
LINES_TO_TRY = {ROOT / "cli" / "examples.py", ROOT / "experiment" / "authoring" / "page_text.py"}
"""Whole command lines, as people type them, and an agent that has options of its own."""


def texts(path: Path) -> Iterator[tuple[int, str]]:
    """Text that a program handles or says; not what is written for readers of the source."""
    tree = ast.parse(path.read_text("utf-8"))
    statements = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in statements:
            yield node.lineno, node.value


def test_flags_are_written_in_the_table_alone() -> None:
    files = [
        path
        for path in sorted(ROOT.rglob("*.py"))
        if TABLE not in path.parents and path not in LINES_TO_TRY and "templates" not in path.parts
    ]
    found = [
        f"{path.relative_to(ROOT)}:{line}: {flag}"
        for path in files
        for line, text in texts(path)
        for flag in FLAGS.findall(text)
    ]
    assert len(files) > 300
    assert found == []


def test_variables_are_named_in_the_table_alone() -> None:
    variables = {option.variable for option in OPTIONS if option.flags}
    found = [
        f"{path.relative_to(ROOT)}:{line}: {text}"
        for path in sorted(ROOT.rglob("*.py"))
        if TABLE not in path.parents
        for line, text in texts(path)
        if not variables.isdisjoint(re.findall(r"\bLAB_\w+", text))
    ]
    assert len(variables) > 30
    assert found == []


def test_the_search_finds_a_flag_in_a_message() -> None:
    assert FLAGS.findall("lower --max-concurrency, or --no-fail-on-error") == [
        "--max-concurrency",
        "--no-fail-on-error",
    ]
    assert FLAGS.findall("--environment --set-up x--set") == []
    assert any(FLAGS.findall(text) for _, text in texts(TABLE / "run_options.py"))
