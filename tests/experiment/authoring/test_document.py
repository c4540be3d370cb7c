import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from labrunner.errors import InputError, InputErrors
from labrunner.experiment.authoring.document import read_document
from labrunner.experiment.authoring.experiment_page import SECTIONS
from labrunner.experiment.authoring.part import Part
from labrunner.experiment.resolving.load import load

FIELDS = sorted({field.alias or name for model in SECTIONS for name, field in model.model_fields.items()})
scalars = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.sampled_from(["", "a", "$a", "docker", "none"])
)
values = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.sampled_from(FIELDS), inner, max_size=4)
    ),
    max_leaves=12,
)
files = st.dictionaries(st.sampled_from(FIELDS), values, max_size=8)
GOOD = {
    "name": "x",
    "tasks": [{"id": "a", "input": 1}],
    "agent": {"command": "x"},
    "grader": {"command": "x"},
}


@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.one_of(files, files.map(lambda own: GOOD | own)))
def test_whatever_stands_in_a_file_is_answered_with_a_message_never_a_crash(
    tmp_path: Path, data: dict[str, Any]
) -> None:
    path = tmp_path / "experiment.yaml"
    path.write_text(json.dumps(data))
    with suppress(InputError, InputErrors):
        assert load(path).digest.startswith("sha256:")


@settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.text(alphabet=st.characters(codec="utf-8"), max_size=60))
def test_any_text_is_read_or_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "experiment.yaml"
    path.write_text(text, encoding="utf-8")
    with suppress(InputError):
        assert isinstance(read_document(path).data, dict)


@settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.dictionaries(st.text("abc", min_size=1), values))
def test_json_means_the_same_in_yaml(tmp_path: Path, data: dict[str, Any]) -> None:
    path = tmp_path / "experiment.yaml"
    text = json.dumps(data)
    assume("NaN" not in text and "Infinity" not in text)
    path.write_text(text)
    assert read_document(path).data == data


def test_fields_know_their_lines(tmp_path: Path) -> None:
    path = tmp_path / "e.yaml"
    path.write_text("a: 1\nb:\n  c: {d: 1,\n    e: [x,\n    y]}\n")
    document = read_document(path)
    lines = {place: document.place(place).line for place in document.places}
    assert lines == {
        (): None, ("a",): 1, ("b",): 2, ("b", "c"): 3, ("b", "c", "d"): 3, ("b", "c", "e"): 4,
        ("b", "c", "e", 0): 4, ("b", "c", "e", 1): 5,
    }  # fmt: skip
    assert document.where(("b", "c", "missing")) == f"{path}:3: b.c.missing"


def test_aliases_mean_what_they_stand_for(tmp_path: Path) -> None:
    path = tmp_path / "e.yaml"
    path.write_text("a: &x {k: [1]}\nb: *x\n")
    assert read_document(path).data == {"a": {"k": [1]}, "b": {"k": [1]}}


def test_a_bomb_of_aliases_is_refused_before_it_fills_the_memory(tmp_path: Path) -> None:
    path = tmp_path / "e.yaml"
    path.write_text(
        "a0: &a0 [x, x]\n" + "".join(f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]\n" for n in range(1, 40))
    )
    with pytest.raises(InputError, match="far too many of them"):
        read_document(path)


@pytest.mark.parametrize("text", ["[" * 5000, "a: " + "{b: " * 5000])
def test_deep_nesting_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "e.yaml"
    path.write_text(text)
    with pytest.raises(InputError):
        read_document(path)


def test_every_part_refuses_fields_it_does_not_know() -> None:
    for model in SECTIONS:
        assert issubclass(model, Part)
        assert model.model_config["extra"] == "forbid"
        assert model.model_config["strict"]


@pytest.mark.parametrize("kind", ["pipe", "device"])
def test_what_is_no_plain_file_is_neither_waited_for_nor_read_without_end(tmp_path: Path, kind: str) -> None:
    path = Path("/dev/zero") if kind == "device" else tmp_path / "experiment.yaml"
    if kind == "pipe":
        os.mkfifo(path)
    with pytest.raises(InputError, match=r"can't be read: it is no plain file \(a pipe or a device\?\)"):
        read_document(path)
