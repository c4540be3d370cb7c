import subprocess
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labrunner.errors import SandboxFailed
from labrunner.sandbox.docker.wrapper.script import (
    PhaseBasics,
    Start,
    command_text,
    phase_env,
    plan_text,
    quote,
    ring_text,
)
from labrunner.sandbox.door import SEARCH_PATH
from tests.kit.sandbox.place import phase

HOUSE = PhaseBasics(image_env={}, workdir="/agentlab/workspace", owner=None)


def start(*argv: str, user: str = "", **changes: Any) -> Start:
    return Start(phase=phase(*argv, **changes), user=user, scratch="/agentlab/scratch/x")


@given(st.text(alphabet=st.characters(exclude_characters="\0", codec="utf-8"), max_size=60))
def test_whatever_is_quoted_is_one_word_in_a_shell(text: str) -> None:
    told = subprocess.run(["/bin/sh", "-c", f"printf %s {quote(text)}"], capture_output=True, check=True)
    assert told.stdout == text.encode()


def test_secrets_are_in_what_is_said_and_not_in_what_is_written() -> None:
    grader = start("grade", name="grader", env={"PATH": "/bin", "KEY": "very secret"})
    assert "very secret" in ring_text(HOUSE, "bell", grader)
    assert "very secret" not in command_text(HOUSE, "bell", grader, number=1)


def test_a_plan_ends_with_its_nonce() -> None:
    plan = plan_text(HOUSE, "nonce", None, start("agent"), gate=False)
    assert plan.startswith("nonce\n")
    assert plan.endswith("\nend nonce\n")


@pytest.mark.parametrize("name", ["a-b", "1a", "a.b", "", "PPID", "a b"])
def test_names_that_a_shell_can_not_set_are_refused(name: str) -> None:
    with pytest.raises(SandboxFailed, match="can't set the variable"):
        plan_text(HOUSE, "n", None, start("x", env={name: "1"}), gate=False)


@pytest.mark.parametrize(("argv", "problem"), [(("x\0y",), "NUL"), (("x" * 70_000,), "more than")])
def test_what_does_not_fit_into_a_plan_is_refused(argv: tuple[str, ...], problem: str) -> None:
    with pytest.raises(SandboxFailed, match=problem):
        plan_text(HOUSE, "n", None, start(*argv), gate=False)


def test_the_images_path_takes_the_place_of_the_usual_one() -> None:
    basics = PhaseBasics(image_env={"PATH": "/opt/bin:/bin", "A": "1"}, workdir="/", owner=None)
    env = phase_env(basics, start("x", env={"PATH": f"/agentlab/agent/bin:{SEARCH_PATH}", "B": "2"}))
    assert env["PATH"] == "/agentlab/agent/bin:/opt/bin:/bin"
    assert (env["A"], env["B"]) == ("1", "2")
    assert phase_env(basics, start("x", env={"PATH": "/mine"}))["PATH"] == "/mine"


def test_what_could_turn_a_grader_is_not_passed_on() -> None:
    basics = PhaseBasics(
        image_env={"PYTHONPATH": "/x", "LD_PRELOAD": "y", "PYTEST_X": "z", "LANG": "C"},
        workdir="/",
        owner=None,
    )
    env = phase_env(basics, start("x", name="grader", env={"PATH": "/bin"}))
    assert set(env) == {"LANG", "PATH", "HOME", "TMPDIR"}
    assert "unset PYTHONPATH LD_PRELOAD PYTEST_X" in ring_text(
        basics, "b", start("x", name="grader", env={"PATH": "/b"})
    )
