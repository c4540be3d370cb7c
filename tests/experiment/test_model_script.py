"""Files of canned answers that an experiment names: read strictly, and told with the file."""

from pathlib import Path

import msgspec
import pytest

from labrunner.experiment.model_script import ScriptedAnswer, ScriptedCall, ScriptedFailure, read_script
from tests.kit.experiment.authoring import GRADER, TASKS, Bench

EXPERIMENT = f"""name: x
{TASKS}{GRADER}agent: {{command: x, network: {{models: [m]}}}}
models: {{m: {{dialect: openai, script: answers.json}}}}
"""
GOOD = """{"answers": [
  {"sample": "sum", "turn": 0, "tool_calls": [{"function": "run", "arguments": {"command": "ls"}}]},
  {"when": "42", "model": "small", "text": "5", "input_tokens": 10, "output_tokens": 2, "wait_s": 0.5},
  {"fail": {"status": 529, "times": 1, "retry_after_s": 1, "message": "Overloaded"}}]}
"""


def test_a_script_is_read_and_its_content_is_measured(bench: Bench) -> None:
    first = bench.write(answers_json=GOOD).load(EXPERIMENT)
    assert [answer.text for answer in read_script(bench.root / "answers.json").answers] == ["", "5", ""]
    assert first.variants[0].models[0].script is not None
    second = bench.write(answers_json=GOOD.replace('"5"', '"6"')).load(EXPERIMENT)
    assert first.variants[0].digest != second.variants[0].digest


BROKEN = {
    "no list": ("{}", "answers.json: is no script of a mock model: Object missing required field `answers`"),
    "no JSON": ("answers: []", "answers.json: is no script of a mock model: JSON is malformed"),
    "an unknown field": (
        '{"answers": [{"txt": "x"}]}',
        "answers.json: is no script of a mock model: Object contains unknown field `txt` - at `$.answers[0]`",
    ),
    "arguments as text": (
        '{"answers": [{"tool_calls": [{"function": "f", "arguments": "{}"}]}]}',
        "answers.json: is no script of a mock model: Expected `object`, got `str` - at "
        "`$.answers[0].tool_calls[0].arguments`",
    ),
    "money": (
        '{"answers": [{"text": "x", "cost_usd": 1}]}',
        "experiment.yaml:5: models.m.script: has answers with cost_usd, which is for Python tasks",
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_script_is_told_with_the_experiment(bench: Bench, name: str) -> None:
    text, said = BROKEN[name]
    assert bench.write(answers_json=text).complaint(EXPERIMENT).startswith(said)


PAGE = Path(__file__).parents[2] / "docs" / "models.md"


@pytest.mark.parametrize("struct", [ScriptedAnswer, ScriptedCall, ScriptedFailure])
def test_every_field_of_a_script_is_on_the_page_about_models(struct: type[msgspec.Struct]) -> None:
    scripts = PAGE.read_text("utf-8").partition("## Scripts")[2].partition("\n## ")[0]
    named = [field.name for field in msgspec.structs.fields(struct) if field.name != "cost_usd"]
    assert [name for name in named if f"`{name}`" not in scripts and f'"{name}"' not in scripts] == []
