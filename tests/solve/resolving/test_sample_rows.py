"""Samples as rows: what is no sample is refused by name."""

from typing import Any

import pytest

from labrunner.errors import InputError
from labrunner.solve.resolving.sample_rows import make_rows
from labrunner.solve.values.sample import Sample


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"input": "x"}, "sample 2 of the dataset must be a Sample, found a map; write Sample(**record)"),
        ("x", "sample 2 of the dataset must be a Sample, found text 'x'"),
        ({"input": 3, "id": "a"}, "input of sample a must be text or messages, found int"),
        (
            {"input": "x", "target": 3},
            "target of sample 2: must be text or a list of texts, found the number 3",
        ),
        ({"input": "x", "target": [3]}, "target of sample 2: must be text or a list of texts, found a list"),
        ({"input": "x", "choices": "AB"}, "choices of sample 2: must be a list of texts, found text 'AB'"),
        ({"input": "x", "files": {"a": 3}}, "files of sample 2: must be a map of texts, found a map"),
        ({"input": "x", "setup": ["ls"]}, "setup of sample 2: must be text, found a list"),
        ({"input": "x", "metadata": {"a": {1}}}, "metadata of sample 2 must be JSON"),
        ({"input": "x", "sandbox": "podman"}, "sandbox of sample 2 may name cpus, disk_mb, image"),
    ],
)
def test_what_is_no_sample_is_refused_by_its_number_and_field(given: Any, said: str) -> None:
    is_bare = not isinstance(given, dict) or said.startswith("sample 2")
    second: Any = given if is_bare else Sample(**given)
    with pytest.raises(InputError) as told:
        make_rows([Sample(input="fine"), second], "ctf.py")
    assert str(told.value).startswith("ctf.py: ")
    assert said in str(told.value)


def test_targets_are_one_text_several_or_none() -> None:
    given = [Sample(input="x", target="a"), Sample(input="x", target=["a", "b"]), Sample(input="x")]
    assert [row["target"] for row in make_rows(given, "ctf.py")] == ["a", ["a", "b"], ""]
