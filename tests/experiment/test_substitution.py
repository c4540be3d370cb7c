import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labrunner.experiment.substitution import (
    BUILT_INS,
    UnfitBinding,
    UnknownName,
    bind,
    escape,
    expand,
    expand_all,
)

PLACES = {name: f"/guest/{name}" for name in BUILT_INS}
pieces = st.sampled_from(["$", "$$", "${", "}", "$model", "${python}", "$x", "text", " "])
texts = st.one_of(st.text(), st.lists(pieces).map("".join))
scalars = st.one_of(texts, st.integers(), st.booleans(), st.floats(allow_nan=False, allow_infinity=False))


@given(texts)
def test_an_escaped_text_comes_back_as_it_was(text: str) -> None:
    assert expand(bind(escape(text), {}), {}) == text


@given(texts)
def test_a_binding_arrives_as_it_is_even_when_it_looks_like_a_name(value: str) -> None:
    assert expand(bind("<$model>", {"model": value}), PLACES) == f"<{value}>"


@given(texts, st.dictionaries(st.sampled_from(["model", "effort"]), scalars))
def test_binding_a_bound_text_again_changes_nothing(text: str, bindings: dict[str, object]) -> None:
    try:
        bound = bind(text, bindings)
    except UnknownName:
        return
    assert bind(bound, {}) == bound


def test_built_in_names_stay_until_the_sandbox_is_known() -> None:
    bound = bind("$agent_dir/run ${python} $model $$x", {"model": "m"})
    assert bound == "${agent_dir}/run ${python} m $$x"
    assert expand(bound, PLACES) == "/guest/agent_dir/run /guest/python m $x"


def test_a_name_ends_where_letters_end() -> None:
    assert bind("$model-x ${model}x", {"model": "m"}) == "m-x mx"


@pytest.mark.parametrize(
    ("value", "text"), [("a b", "a b"), (3, "3"), (0.5, "0.5"), (True, "true"), (False, "false")]
)
def test_scalars_have_one_text(value: object, text: str) -> None:
    assert bind("$x", {"x": value}) == text


@pytest.mark.parametrize("value", [None, [1], {"a": 1}])
def test_what_has_no_single_text_is_refused(value: object) -> None:
    with pytest.raises(UnfitBinding, match="binding 'x' is"):
        bind("$x", {"x": value})


@pytest.mark.parametrize("text", ["$nope", "${nope}", "a$", "$(x)", "$1", "${a-b}", "${", "$\n"])
def test_anything_else_behind_a_dollar_is_refused(text: str) -> None:
    with pytest.raises(UnknownName):
        bind(text, {"a": 1})


def test_the_last_stage_refuses_names_it_does_not_know() -> None:
    with pytest.raises(UnknownName, match=r"unknown name '\$x'; known here: \$y; write \$\$"):
        expand("$x", {"y": ""})


def test_each_text_of_a_command_is_expanded() -> None:
    assert expand_all(("${python}", "$$", "x"), PLACES) == ("/guest/python", "$", "x")


def test_a_run_that_goes_on_needs_neither_pydantic_nor_yaml() -> None:
    script = (
        "import sys; from labrunner.experiment import codec, resolved, schedule, substitution;"
        "sys.exit(bool({'pydantic', 'yaml'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", script]).returncode == 0
