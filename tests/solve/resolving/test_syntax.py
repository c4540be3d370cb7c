"""What counts of a Python file's text, and what it imports."""

from pathlib import Path

import pytest

from labrunner.solve.resolving.syntax import Import, read_code

CODE = 'def f(a, b=[None, 1]):\n    """Adds."""\n    return {**a, "x": b}\n'


def digest(folder: Path, text: str) -> str:
    path = folder / "code.py"
    path.write_text(text)
    return read_code(path).digest


@pytest.mark.parametrize(
    "text",
    [
        "# a comment\n" + CODE,
        CODE.replace('"x"', "'x'").replace("=[", " = [ "),
        CODE.replace("return", "return (").replace("b}", "b\n    })"),
    ],
)
def test_comments_quotes_and_layout_do_not_count(tmp_path: Path, text: str) -> None:
    assert digest(tmp_path, text) == digest(tmp_path, CODE)


@pytest.mark.parametrize(
    ("old", "new"),
    [("Adds.", "Add."), ('"x"', 'b"x"'), ("1]", "1.0]"), ("[None, 1]", "[1, None]"), ("**a", "a: None")],
)
def test_what_runs_or_may_be_a_prompt_counts(tmp_path: Path, old: str, new: str) -> None:
    assert old in CODE
    assert digest(tmp_path, CODE.replace(old, new)) != digest(tmp_path, CODE)


def test_a_file_that_is_no_python_counts_by_its_bytes(tmp_path: Path) -> None:
    assert digest(tmp_path, "def (") != digest(tmp_path, "def  (")
    assert read_code(tmp_path / "code.py").imports == ()


def test_expressions_deeper_than_the_stack_are_read(tmp_path: Path) -> None:
    assert digest(tmp_path, "x = " + " + ".join(["1"] * 3000)) != digest(
        tmp_path, "x = " + " + ".join(["1"] * 3001)
    )


def test_imports_are_found_wherever_they_stand(tmp_path: Path) -> None:
    path = tmp_path / "code.py"
    path.write_text(
        "import a.b as c, d\nfrom . import e\nfrom ..f import g, h\n"
        "def later():\n    import i\n    importlib.import_module('j.k')\n"
    )
    assert set(read_code(path).imports) == {
        Import("a.b"),
        Import("d"),
        Import("", 1, ("e",)),
        Import("f", 2, ("g", "h")),
        Import("i"),
        Import("j.k"),
    }
