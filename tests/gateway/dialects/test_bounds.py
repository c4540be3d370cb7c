import json

import pytest

from labrunner.gateway.dialects.bounds import MAX_PARTS, MAX_VALUES, find_excess


@pytest.mark.parametrize(
    "content",
    [
        "[" * 10 * MAX_PARTS,
        '{"a": [1, 2]}' * MAX_PARTS,
        "a, b" * MAX_VALUES,
        '\\"[' * MAX_PARTS,
        "\\" * 99_999,
    ],
)
def test_what_stands_in_a_text_is_no_part(content: str) -> None:
    body = {"model": "m", "messages": [{"role": "user", "content": content}] * 3}
    assert find_excess(json.dumps(body).encode()) is None


@pytest.mark.parametrize(
    ("body", "told"),
    [
        (json.dumps([[]] * MAX_PARTS), "50000 objects and lists"),
        (json.dumps([{"\\": '\\"'}] * MAX_PARTS), "50000 objects and lists"),
        ("[" * (MAX_PARTS + 1), "50000 objects and lists"),
        (json.dumps([1] * (MAX_VALUES + 2)), "1000000 values"),
        (json.dumps(["a"] * (MAX_VALUES + 2)), "1000000 texts"),
    ],
)
def test_more_parts_than_any_request_has_are_told(body: str, told: str) -> None:
    assert find_excess(body.encode()) == f"it has more than {told}"
