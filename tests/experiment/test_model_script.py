"""Files of canned answers: read strictly, and told with file, line and field where they are wrong."""

import pytest

from labrunner.experiment.model_script import read_script
from tests.kit.experiment.authoring import GRADER, TASKS, Bench

EXPERIMENT = f"""name: x
{TASKS}{GRADER}agent: {{command: x, network: {{models: [m]}}}}
models: {{m: {{dialect: openai, script: answers.json}}}}
"""
GOOD = """{"conversations": [
  {"match": "sum", "model": "small", "answers": [
    {"text": "Let me see", "tool_calls": [{"name": "run", "arguments": {"command": "ls"}}]},
    {"text": "5", "usage": {"input": 10, "output": 2, "cache_read": 4, "reasoning": 1}, "delay_s": 0.5},
    {"error": {"status": 529, "kind": "overloaded_error", "message": "Overloaded"}}]}]}
"""


def test_a_script_is_read_and_its_content_is_measured(bench: Bench) -> None:
    first = bench.write(answers_json=GOOD).load(EXPERIMENT)
    (conversation,) = read_script(bench.root / "answers.json").conversations
    assert [answer.text for answer in conversation.answers] == ["Let me see", "5", ""]
    assert first.variants[0].models[0].script is not None
    second = bench.write(answers_json=GOOD.replace('"5"', '"6"')).load(EXPERIMENT)
    assert first.variants[0].digest != second.variants[0].digest


BROKEN = {
    "no list": ("{}", "answers.json: conversations: is missing"),
    "an empty list": (
        '{"conversations": []}',
        "answers.json:1: conversations: must have at least 1 item, found a list",
    ),
    "no map": ("[]", "answers.json: a model's script is a map with a list of conversations, found a list"),
    "an unknown field": (
        '{"conversations": [{"answers": [\n{"txt": "x"}]}]}',
        "answers.json:2: conversations.0.answers.0.txt: there is no such field; did you mean 'text'?",
    ),
    "nothing said": (
        '{"conversations": [{"answers": [{"delay_s": 1}]}]}',
        "answers.json:1: conversations.0.answers.0: says nothing; write text, tool_calls or error",
    ),
    "two things said": (
        '{"conversations": [{"answers": [{"text": "x", "error": {"status": 500}}]}]}',
        "answers.json:1: conversations.0.answers.0: has an error beside text or tool_calls; keep one of them",
    ),
    "no status of an error": (
        '{"conversations": [{"answers": [{"error": {"status": 200}}]}]}',
        "answers.json:1: conversations.0.answers.0.error.status: must be at least 400, found the number 200",
    ),
    "a part larger than the whole": (
        '{"conversations": [{"answers": [{"text": "x",\n'
        '"usage": {"input": 9, "output": 1, "reasoning": 2}}]}]}',
        "answers.json:2: conversations.0.answers.0.usage: reasoning (2) is part of output (1), and larger",
    ),
    "arguments as text": (
        '{"conversations": [{"answers": [{"tool_calls": [{"name": "f", "arguments": "{}"}]}]}]}',
        "answers.json:1: conversations.0.answers.0.tool_calls.0.arguments: must be a map, found text '{}'",
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_script_is_told_with_the_experiment(bench: Bench, name: str) -> None:
    text, said = BROKEN[name]
    assert bench.write(answers_json=text).complaint(EXPERIMENT).startswith(said)
