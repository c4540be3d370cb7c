import pytest

from labrunner.experiment.authoring.authored import (
    AgentPart,
    GraderPart,
    Part,
    SetupPart,
)
from labrunner.experiment.authoring.unbuilt import UNBUILT, Unbuilt
from labrunner.experiment.resolving.load import Overrides
from tests.kit.experiment.authoring import SMALL, TASKS, Bench

PREFIXES: dict[type[Part], str] = {
    SetupPart: "setup.",
    AgentPart: "agent.",
    GraderPart: "grader.",
}
ASKING = {
    "network": "{allow: [example.com]}",
}
ROWS = [(prefix + row.field, row) for part, prefix in PREFIXES.items() for row in UNBUILT[part]]


def test_every_part_of_the_table_is_tried() -> None:
    assert set(UNBUILT) == set(PREFIXES)


@pytest.mark.parametrize(("field", "row"), ROWS, ids=[field for field, _ in ROWS])
def test_what_is_not_built_yet_is_refused_and_not_ignored(bench: Bench, field: str, row: Unbuilt) -> None:
    value = ASKING[field.rsplit(".", 1)[-1]]
    said = bench.complaint(SMALL, Overrides(sets=((field, value),)))
    assert said == f"--set {field}={value}: {field}: {row.sentence}"


def test_a_variant_that_asks_for_it_is_refused_where_it_asks(bench: Bench) -> None:
    asking = "  - {id: y, agent: {network: {allow: [example.com]}}}\n"
    said = bench.complaint(SMALL + "variants:\n  - {id: x}\n" + asking)
    assert said.startswith("experiment.yaml:7: variants.1.agent.network: allow-lists")


def test_an_image_makes_containers_the_kind(bench: Bench) -> None:
    text = SMALL.replace(TASKS, "tasks: [{id: a, input: x, image: 'python:3', workdir: /src}]\n")
    assert bench.load(text).variants[0].sandbox.kind == "docker"
