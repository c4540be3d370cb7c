"""What is said of a cluster's nodes where this machine carries trials out."""

import pytest

from labrunner.errors import InputError
from labrunner.experiment.options.overrides import Overrides
from labrunner.experiment.resolving.hazards import refuse_unheeded_options
from tests.kit.experiment.authoring import Bench

FILE = """
name: x
tasks: [{{id: a, input: x}}]
agent: {{command: x}}
grader: {{command: x}}
executor: {{{executor}}}
"""
RAY = "add --executor ray, or leave it out"


@pytest.mark.parametrize("kind", ["", "kind: local, "])
@pytest.mark.parametrize("field", ["address: 'head:6379'", "per_node: 2", "labels: {zone: a}"])
def test_a_file_is_refused_that_speaks_of_nodes_and_names_no_cluster(
    bench: Bench, field: str, kind: str
) -> None:
    said = bench.complaint(FILE.format(executor=kind + field))
    assert f": executor.{field.partition(':')[0]}: speaks of a cluster's nodes" in said
    assert "kind: local" in said
    assert "write kind: ray, or leave it out" in said


@pytest.mark.parametrize(
    "executor",
    [
        "",
        "kind: local, address: auto, per_node: auto, labels: {}",
        "kind: ray, address: 'head:6379', per_node: 2, labels: {zone: a}",
        "kind: somebodys, address: 'head:6379'",
    ],
)
def test_a_file_may_say_what_is_so_anyway_or_what_its_executor_may_heed(bench: Bench, executor: str) -> None:
    bench.load(FILE.format(executor=executor))


def test_a_file_for_a_cluster_can_be_run_here(bench: Bench) -> None:
    for executor in ("kind: ray, address: 'head:6379'", "address: 'head:6379'"):
        made = bench.load(FILE.format(executor=executor), Overrides(executor="local"))
        assert made.policy.executor.kind == "local"


@pytest.mark.parametrize(
    ("asked", "named"),
    [
        (Overrides(executor_address="head:6379"), "--executor-address: "),
        (Overrides(executor_address="auto"), "--executor-address: "),
        (Overrides(executor="local", executor_address="head:6379"), "--executor-address: "),
        (Overrides(sets=(("executor.per_node", "2"),)), "--set executor.per_node=2: "),
        (Overrides(sets=(("executor.labels.zone", "a"),)), "--set executor.labels.zone=a: "),
        (Overrides(sets=(("executor", "{address: a}"),)), "--set executor={address: a}: "),
    ],
)
def test_options_that_speak_of_nodes_are_refused_by_name_where_trials_run_here(
    asked: Overrides, named: str
) -> None:
    with pytest.raises(InputError) as refused:
        refuse_unheeded_options(asked, "local")
    assert str(refused.value).startswith(named)
    assert str(refused.value).endswith(RAY)
    refuse_unheeded_options(asked, "ray")


def test_a_variable_that_is_set_for_all_is_no_such_option(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAB_EXECUTOR_ADDRESS", "head:6379")
    refuse_unheeded_options(Overrides(executor_address="head:6379"), "local")
    with pytest.raises(InputError, match="--executor-address"):
        refuse_unheeded_options(Overrides(executor_address="other:6379"), "local")
