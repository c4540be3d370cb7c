"""What tests replace in running code: each time with a reason, for a parameter would say more."""

from pathlib import Path

TESTS = Path(__file__).parents[1]
CALL = "monkeypatch.setattr("


def find_unexplained(text: str) -> list[int]:
    """Lines that replace something, and have no comment of their own or above their block."""
    lines = text.splitlines()
    found, is_explained = [], False
    for number, line in enumerate(lines, start=1):
        if line.lstrip().startswith(CALL):
            if not is_explained and "  # " not in line:
                found.append(number)
        else:
            is_explained = line.lstrip().startswith("# ")
    return found


def test_whatever_is_replaced_is_replaced_for_a_reason() -> None:
    texts = {path: path.read_text("utf-8") for path in TESTS.rglob("*.py") if path != Path(__file__)}
    found = {str(path.relative_to(TESTS)): find_unexplained(text) for path, text in texts.items()}
    assert {path: lines for path, lines in found.items() if lines} == {}


def test_a_reason_stands_beside_the_call_or_above_the_block() -> None:
    bare, beside = f"    {CALL}os, 'x', 1)", f"    {CALL}os, 'x', 1)  # why"
    above = f"    # why\n    {CALL}os, 'x', 1)\n    {CALL}os, 'y', 1)"
    assert [find_unexplained(text) for text in (bare, beside, above)] == [[1], [], []]
    assert find_unexplained(f"    # of something else\n    x = 1\n{bare}") == [3]
