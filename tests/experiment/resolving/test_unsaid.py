import pytest

from tests.kit.experiment.authoring import Bench

FILE = """
name: x
tasks: [{{id: a, input: x{task}}}]
agent: {{command: x}}
grader: {{command: x}}
sandbox: {{kind: {kind}, image: i}}
{more}
"""
SETUP = "setup: {command: apt-get install x}"


def written(more: str, *, kind: str = "docker", task: str = "") -> str:
    text = FILE.format(kind=kind, more=more, task=task)
    return text if kind == "docker" else text.replace(", image: i", "")


@pytest.mark.parametrize(
    "text",
    [
        written(SETUP),
        written("variants: [{id: plain}, {id: other, setup: {command: x}}]"),
        written("", task=", setup: {command: x}"),
    ],
    ids=["the experiment's", "a variant's", "a task's"],
)
def test_a_setup_in_a_container_needs_a_word_on_changed_systems(bench: Bench, text: str) -> None:
    said = bench.complaint(text)
    assert "on_system_change" in said
    assert "task 'a' has a setup command" in said
    for remedy in ("afresh", "flag", "refuse", "read_only", "image"):
        assert remedy in said


@pytest.mark.parametrize("policy", ["afresh", "flag", "refuse", "ignore"])
def test_any_word_will_do(bench: Bench, policy: str) -> None:
    experiment = bench.load(written(f"{SETUP}\non_system_change: {policy}"))
    assert experiment.on_system_change == policy


@pytest.mark.parametrize(
    "text",
    [
        written(""),
        written(f"{SETUP}\ntrust: strict"),
        written(SETUP).replace("image: i", "image: i, read_only: true"),
        written(SETUP).replace("grader: {command: x", "grader: {command: x, where: fresh"),
        written(SETUP, kind="bubblewrap"),
    ],
    ids=["no setup", "strict", "read-only", "a fresh container anyway", "no container"],
)
def test_where_nothing_follows_from_setup_no_word_is_needed(bench: Bench, text: str) -> None:
    assert bench.load(text).on_system_change == "afresh"
