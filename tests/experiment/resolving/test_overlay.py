# ruff: noqa: E501 - messages stand as people read them

import pytest

from labrunner.experiment.resolving.load import Overrides, load
from tests.kit.experiment.authoring import GRADER, SMALL, TASKS, Bench

VARIANTS = SMALL + "variants:\n  - {id: x, bindings: {model: a}}\n  - {id: y, sandbox: {kind: bubblewrap}}\n"


def test_options_lie_over_the_file(bench: Bench) -> None:
    experiment = bench.load(
        SMALL + "fail_on_error: 0.5\nkeep: {logs: never}\n",
        Overrides(
            max_concurrency=3,
            replications=4,
            fail_on_error=False,
            continue_on_fail=True,
            retry_on_error=2,
            keep_workspace="never",
        ),
    )
    policy = experiment.policy
    assert (experiment.replications, policy.max_concurrency, policy.fail_on_error) == (4, 3, False)
    assert (policy.continue_on_fail, policy.retry_on_error) == (True, 2)
    assert (policy.keep.workspace, policy.keep.logs) == ("never", "never")


def test_set_reaches_any_field_by_its_path(bench: Bench) -> None:
    sets = (("agent.timeout_s", "60"), ("variants.1.bindings.model", "b"), ("agent.env.LEVEL", '"7"'))
    experiment = bench.load(VARIANTS, Overrides(sets=(*sets, ("seed", "3"), ("tags", "[p, q]"))))
    first, second = experiment.variants
    assert first.agent.timeout_s == 60.0
    assert (first.bindings, second.bindings) == ({"model": "a"}, {"model": "b"})
    assert first.agent.env == {"LEVEL": "7"}
    assert (experiment.seed, experiment.tags) == (3, ("p", "q"))


def test_the_last_of_two_sets_holds(bench: Bench) -> None:
    experiment = bench.load(SMALL, Overrides(sets=(("seed", "3"), ("seed", "4"))))
    assert experiment.seed == 4


def test_a_folder_that_is_set_starts_from_the_files_folder(bench: Bench) -> None:
    bench.write(sub__experiment_yaml=SMALL, sub__agent__run_sh="x")
    (variant,) = load(bench.root / "sub", Overrides(sets=(("agent.dir", "agent"),))).variants
    assert variant.agent.dir is not None
    assert variant.agent.dir.path == str(bench.root / "sub" / "agent")


def test_sandbox_holds_for_variants_with_one_of_their_own(bench: Bench) -> None:
    experiment = bench.load(VARIANTS, Overrides(sandbox="process"))
    assert {variant.sandbox.kind for variant in experiment.variants} == {"process"}


def test_env_is_literal_and_holds_for_every_variant(bench: Bench) -> None:
    text = SMALL + "variants: [{id: x, agent: {env: {A: own}}}, {id: y}]\n"
    experiment = bench.load(text, Overrides(env={"A": "$x ${y}", "B": "1"}))
    assert [variant.agent.env for variant in experiment.variants] == [{"A": "$$x $${y}", "B": "1"}] * 2


def test_tasks_and_variants_can_be_chosen(bench: Bench) -> None:
    rows = "tasks: [{id: a-1, input: x, tags: [t]}, {id: a-2, input: x, tags: [t]}, {id: b, input: x}]\n"
    text = VARIANTS.replace(TASKS, rows)
    chosen = [
        (Overrides(task_ids=("a-*",)), ["a-1", "a-2"]),
        (Overrides(task_ids=("b", "a-1")), ["a-1", "b"]),
        (Overrides(tags=("t",), limit=1), ["a-1"]),
        (Overrides(limit=99), ["a-1", "a-2", "b"]),
    ]
    for overrides, ids in chosen:
        assert [task.id for task in bench.load(text, overrides).tasks] == ids
    assert [variant.id for variant in bench.load(text, Overrides(variants=("y",))).variants] == ["y"]


def test_an_id_with_brackets_is_found_by_its_own_name(bench: Bench) -> None:
    text = SMALL.replace(TASKS, "tasks: [{id: 't[1]', input: x}, {id: t1, input: x}]\n")
    assert [task.id for task in bench.load(text, Overrides(task_ids=("t[1]",))).tasks] == ["t[1]", "t1"]


@pytest.mark.parametrize(("text", "value"), [("true", True), ("false", False), ("0.25", 0.25), ("3", 3.0)])
def test_fail_on_error_may_come_as_text(bench: Bench, text: str, value: bool | float) -> None:
    policy = bench.load(SMALL, Overrides(fail_on_error=text)).policy
    assert policy.fail_on_error == value
    assert type(policy.fail_on_error) is type(value)


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (Overrides(task_ids=("aa",)), "--task-id: no task's id matches 'aa'; nearest: a, b"),
        (Overrides(tags=("t",)), "--tag: no task has the tag 't'; known: none"),
        (Overrides(variants=("z",)), "--variant: there is no variant 'z'; known: x, y"),
        (Overrides(limit=0), "--limit: must be at least 1, found 0"),
        (Overrides(replications=0), "--replications: replications: must be at least 1, found the number 0"),
        (Overrides(max_concurrency="many"), "--max-concurrency: max_concurrency: must be auto or a whole number from 1 on, found text 'many'"),
        (Overrides(sandbox="podman"), "--sandbox: there is no sandbox kind 'podman'; known: bubblewrap, docker, process (built in)"),
        (Overrides(env={"A-B": "x"}), "--env: 'A-B' can't be a variable's name: letters, digits and _, no digit first"),
        (Overrides(sets=(("agent.timeout", "5"),)), "--set agent.timeout=5: agent.timeout: there is no such field; did you mean 'timeout_s'?"),
        (Overrides(sets=(("agent.timeout_s", "soon"),)), "--set agent.timeout_s=soon: agent.timeout_s: must be a number, found text 'soon'"),
        (Overrides(sets=(("variants.2.id", "z"),)), "--set variants.2.id=z: there is no item 2: the list has 2, counted from 0"),
        (Overrides(sets=(("name.x", "z"),)), "--set name.x=z: 'name' is text 'small', so it has no field 'x'"),
        (Overrides(sets=(("a..b", "z"),)), "--set a..b=z: 'a..b' names no field; write it like agent.timeout_s=60"),
        (Overrides(sets=(("seed", "[1"),)), "--set seed=[1: is not valid YAML: did not find expected ',' or ']'"),
        (Overrides(sets=(("extends", "b.yaml"),)), "--set extends=b.yaml: extends: can't be set from the command line; write it into the file"),
    ],
)  # fmt: skip
def test_a_wrong_option_is_named(bench: Bench, overrides: Overrides, message: str) -> None:
    assert bench.complaint(VARIANTS, overrides) == message


def test_an_override_does_not_leak_into_the_next_load(bench: Bench) -> None:
    plain = bench.load(SMALL)
    bench.load(SMALL, Overrides(fail_on_error=0.5, env={"A": "1"}, sets=(("agent.env.B", "x"),)))
    assert bench.load(SMALL) == plain


def test_the_process_sandbox_by_option_refuses_a_network_that_was_written(bench: Bench) -> None:
    text = f"name: x\n{TASKS}agent: {{command: x, network: none}}\n{GRADER}"
    assert bench.complaint(text, Overrides(sandbox="process")).startswith(
        "experiment.yaml:3: agent.network: the process sandbox has no network isolation"
    )
