import pytest

from labrunner.experiment.authored import (
    AgentPart,
    BreakerPart,
    BudgetPart,
    ExperimentFile,
    GraderPart,
    Part,
    SandboxPart,
    SetupPart,
)
from labrunner.experiment.authored_task import TaskRow
from labrunner.experiment.load import Overrides
from labrunner.experiment.unbuilt import UNBUILT, Unbuilt
from tests.experiment.authoring import SMALL, TASKS, Bench

PREFIXES: dict[type[Part], str] = {
    SandboxPart: "sandbox.",
    SetupPart: "setup.",
    AgentPart: "agent.",
    GraderPart: "grader.",
    TaskRow: "tasks.0.",
    ExperimentFile: "",
    BreakerPart: "breaker.",
    BudgetPart: "budget.",
}
ASKING = {
    "kind": "docker",
    "image": "python:3",
    "build": "docker",
    "pull": "never",
    "prune_images": "true",
    "workdir": "/src",
    "read_only": "true",
    "tmpfs": "{/tmp: 1g}",
    "network": "{allow: [example.com]}",
    "user": "nobody",
    "where": "fresh",
    "trust": "strict",
    "on_system_change": "refuse",
    "collect": "[out]",
    "after": "6",
    "give_up_after_s": "60",
    "cost_usd": "1.5",
    "tokens": "1000",
}
ROWS = [(prefix + row.field, row) for part, prefix in PREFIXES.items() for row in UNBUILT[part]]


def test_every_part_of_the_table_is_tried() -> None:
    assert set(UNBUILT) == set(PREFIXES)


@pytest.mark.parametrize(("field", "row"), ROWS, ids=[field for field, _ in ROWS])
def test_what_is_not_built_yet_is_refused_and_not_ignored(bench: Bench, field: str, row: Unbuilt) -> None:
    bench.write(docker__Dockerfile="FROM scratch\n")
    value = ASKING[field.rsplit(".", 1)[-1]]
    said = bench.complaint(SMALL, Overrides(sets=((field, value),)))
    assert said == f"--set {field}={value}: {field}: {row.sentence}"


def test_a_variant_that_asks_for_it_is_refused_where_it_asks(bench: Bench) -> None:
    said = bench.complaint(SMALL + "variants:\n  - {id: x}\n  - {id: y, sandbox: {image: i}}\n")
    assert said.startswith("experiment.yaml:7: variants.1.sandbox.image: docker")


def test_asking_for_the_default_asks_for_nothing(bench: Bench) -> None:
    text = SMALL.replace(TASKS, "tasks: [{id: a, input: x, image: null, workdir: null}]\n")
    defaults = (
        "trust: standard\non_system_change: flag\ncollect: []\nbreaker: {after: 5}\nbudget: {tokens: null}\n"
    )
    sandbox = "sandbox: {image: null, build: null, pull: preflight, prune_images: false, tmpfs: {}}\n"
    assert bench.load(text + defaults + sandbox).variants[0].sandbox.kind == "bubblewrap"
