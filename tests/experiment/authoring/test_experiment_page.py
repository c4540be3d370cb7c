import re
from pathlib import Path

import pytest

from labrunner.experiment.agents import agents_page
from labrunner.experiment.authoring.experiment_page import SECTIONS, field_texts, render
from labrunner.experiment.authoring.part import Part
from labrunner.experiment.resolving.load import load

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "experiment.md"


def models(root: type[Part]) -> set[type[Part]]:
    return {root}.union(*(models(child) for child in root.__subclasses__()))


def test_the_page_is_what_the_models_say() -> None:
    assert PAGE.read_text(encoding="utf-8") == render(), (
        "run python -m labrunner.experiment.authoring.experiment_page > docs/reference/experiment.md"
    )


def test_every_model_has_a_section() -> None:
    assert set(SECTIONS) == models(Part) - {Part} - set(agents_page.SECTIONS)


@pytest.mark.parametrize("model", SECTIONS, ids=lambda model: model.__name__)
def test_every_field_stands_in_the_page_with_its_meaning(model: type[Part]) -> None:
    section = render().split(f"\n## {SECTIONS[model]}\n")[1].split("\n## ")[0]
    texts = field_texts(model)
    for name, field in model.model_fields.items():
        (row,) = re.findall(rf"^\| `{field.alias or name}` \|.*$", section, re.MULTILINE)
        assert texts[name]
        assert texts[name].replace("|", "\\|") in row


@pytest.mark.parametrize(
    ("field", "default"),
    [
        ("error_exit_codes", "`{75: provider}`"),
        ("tmpfs", "empty"),
        ("tags", "empty"),
        ("stdin", "`none`"),
        ("timeout_s", "3600"),
        ("require_result", "false"),
        ("name", "**required**"),
    ],
)
def test_defaults_are_told_as_people_would_write_them(field: str, default: str) -> None:
    told = re.findall(rf"^\| `{field}` \|[^|]*\| ([^|]*) \|", render(), re.MULTILINE)
    assert default in told


def test_the_example_of_the_page_loads(tmp_path: Path) -> None:
    example = render().split("```yaml\n")[1].split("```")[0]
    (tmp_path / "experiment.yaml").write_text(example)
    (tmp_path / "tasks.jsonl").write_text('{"id": "a", "input": "x"}\n')
    for name in ("agent", "grader"):
        (tmp_path / name).mkdir()
    assert [variant.agent.timeout_s for variant in load(tmp_path).variants] == [3600.0, 1200.0]
