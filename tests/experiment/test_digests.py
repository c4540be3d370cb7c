import shutil
from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

from labrunner.experiment.digests import digest_experiment, digest_task, digest_variant
from labrunner.experiment.resolved import Experiment, TaskSpec, Variant
from labrunner.experiment.resolving.load import Overrides, load
from tests.kit.experiment.authoring import Bench, enter

TEXT = """\
name: golden
tasks: tasks.jsonl
variants:
  - {id: small, bindings: {model: s, list: [1, 2.5, null]}}
  - {id: large, bindings: {model: l}, sandbox: {memory_mb: 512}}
agent: {command: [$python, $agent_dir/run.py, $model], dir: agent, env: {PRICE: $$5}}
grader: {command: [$python, $grader_dir/grade.py], dir: grader}
replications: 2
"""
# Computed by another program from the description of the digests.
GOLDEN = {
    "experiment": "sha256:7f4cd2b3bdfd4cd8861fb754a00d2a327a04199b78650d9fd642b068f650bf7a",
    "tasks": [
        "sha256:99d701cc6dbd22d53832c1c78162da6512c34e19c5203ba00dfc5921f93b293c",
        "sha256:741020a60e928a8c5ed8f3add0db32d781beeb3f3014a87570614e37f9ae84ed",
    ],
    "variants": [
        "sha256:92914c5bdf6c3740872e060eb08adf1ac30f610fb650ce25c41d549a2cd152c9",
        "sha256:d166819841d9edeca091347b04adec615fb621d945b430fa22fe4c6935be324a",
    ],
}


# Of a container's experiment, before there were models: who does not use them keeps these.
IN_DOCKER = (
    TEXT
    + """sandbox: {kind: docker, image: "python:3.12", memory_mb: 512}
setup: {command: [pip, install, x], network: full}
on_system_change: flag
"""
)
GOLDEN_IN_DOCKER = {
    "experiment": "sha256:6456ef9436e1dc71c236a1390dfc922dc08b5d435117770fa9349276fddfa6ee",
    "tasks": GOLDEN["tasks"],
    "variants": [
        "sha256:2161f5f38d4350c92c1dd26fef0dc3e96d98a990eb506ad77caa3115b5f754f6",
        "sha256:861eb75ed2baa250b36f4e35e3752aeef7dcf98379471399c0f82b29e5a8263c",
    ],
}


@pytest.fixture
def golden(bench: Bench) -> Bench:
    return fill(bench)


def fill(bench: Bench) -> Bench:
    rows = '{"id": "ä", "input": {"b": 1.0, "a": [true, "\\u00e9"]}, "target": 1e-7}\n'
    rows += '{"id": "z", "input": "x", "workspace": "repo", "files": {"in/f": "x"}, "timeout_s": 5}\n'
    return bench.write(tasks_jsonl=rows, agent__run_py="run", grader__grade_py="grade", repo__main_c="main")


def digests(experiment: Experiment) -> dict[str, object]:
    return {
        "experiment": experiment.digest,
        "tasks": [task.digest for task in experiment.tasks],
        "variants": [variant.digest for variant in experiment.variants],
    }


def test_digests_are_the_same_on_every_machine(golden: Bench) -> None:
    assert digests(golden.load(TEXT)) == GOLDEN


def test_an_experiment_without_models_keeps_the_digests_that_it_had_before_there_were_any(
    golden: Bench,
) -> None:
    assert digests(golden.load(IN_DOCKER)) == GOLDEN_IN_DOCKER


@pytest.mark.parametrize(
    ("sets", "moves"),
    [
        (("models.m.dialect", "anthropic"), True),
        (("models.m.server_tools", "[web_search]"), True),
        (("models.m.script", "other.json"), True),
        (("agent.limits", "{requests: 3}"), True),
        (("agent.network.models", "[other]"), True),
        (("models.m.base_url", "http://127.0.0.1:9/v1"), False),
        (("models.m.key", "OTHER"), False),
        (("models.m.prices", "{x: {input: 1, output: 2}}"), False),
        (("models.m.max_connections", "1"), False),
        (("models.m.max_retries", "0"), False),
        (("models.other.dialect", "anthropic"), False),
    ],
)
def test_of_a_model_what_answers_may_depend_on_is_measured_where_it_is_used(
    golden: Bench, sets: tuple[str, str], moves: bool
) -> None:
    text = TEXT.replace("agent: {", "agent: {network: {models: [m]}, ")
    text += 'models: {m: {dialect: openai, base_url: "http://h/v1"}, other: {dialect: openai, key: K}}\n'
    if sets[0] == "models.m.script":
        text = text.replace('base_url: "http://h/v1"', "script: one.json")
        for name in ("one", "other"):
            answers = f'{{"answers": [{{"text": "{name}"}}]}}'
            golden.write(**{f"{name}_json": answers})
    before, after = golden.load(text), golden.load(text, Overrides(sets=(sets,)))
    assert (before.digest != after.digest) == moves
    assert (before.variants[0].digest != after.variants[0].digest) == moves
    assert [task.digest for task in before.tasks] == [task.digest for task in after.tasks]


def test_moving_an_experiment_changes_no_digest(golden: Bench, tmp_path: Path) -> None:
    before = golden.load(TEXT)
    elsewhere = tmp_path.parent / f"{tmp_path.name}-moved" / "deep $er"
    shutil.copytree(golden.root, elsewhere)
    assert digests(load(elsewhere)) == digests(before)
    assert load(elsewhere).tasks[1].workspace != before.tasks[1].workspace


def test_how_a_run_is_carried_out_is_not_measured(golden: Bench) -> None:
    more = """
description: other
tags: [other]
metadata: {other: 1}
fail_on_error: 0.5
continue_on_fail: true
retry_on_error: 3
max_concurrency: 2
min_free_disk_gb: 1
keep: {workspace: never, logs: never}
"""
    other = golden.load(TEXT.replace("name: golden", "name: other") + more)
    assert digests(other) == digests(golden.load(TEXT))


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text.replace("replications: 2", "replications: 3"),
        lambda text: text + "seed: 1\n",
        lambda text: text + "order: by_task\n",
        lambda text: text + "grade_on_agent_failure: false\n",
    ],
)
def test_what_is_measured_of_the_whole_changes_its_digest_alone(
    golden: Bench, change: Callable[[str], str]
) -> None:
    before, after = golden.load(TEXT), golden.load(change(TEXT))
    assert before.digest != after.digest
    assert [task.digest for task in before.tasks] == [task.digest for task in after.tasks]


@pytest.mark.parametrize(
    ("sets", "moved"),
    [
        (("agent.timeout_s", "5"), "variants"),
        (("agent.command", "other"), "variants"),
        (("agent.secrets", "[KEY]"), "variants"),
        (("setup.command", "make"), "variants"),
        (("sandbox.kind", "process"), "both"),
        (("variants.0.bindings.model", "t"), "first variant"),
        (("grader.timeout_s", "5"), "tasks"),
        (("grader.pass_at", "0.5"), "tasks"),
        (("grader.command", "other"), "tasks"),
    ],
)
def test_a_change_moves_the_digests_that_it_touches(golden: Bench, sets: tuple[str, str], moved: str) -> None:
    before, after = golden.load(TEXT), golden.load(TEXT, Overrides(sets=(sets,)))
    assert before.digest != after.digest
    tasks = [old.digest != new.digest for old, new in zip(before.tasks, after.tasks, strict=True)]
    variants = [old.digest != new.digest for old, new in zip(before.variants, after.variants, strict=True)]
    expected = {
        "variants": ([False, False], [True, True]),
        "both": ([True, True], [True, True]),
        "first variant": ([False, False], [True, False]),
        "tasks": ([True, True], [False, False]),
    }
    assert (tasks, variants) == expected[moved]


def test_a_folders_content_is_part_of_what_uses_it(golden: Bench) -> None:
    before = golden.load(TEXT)
    golden.write(agent__run_py="changed", repo__main_c="changed")
    after = golden.load(TEXT)
    assert [old.digest == new.digest for old, new in zip(before.tasks, after.tasks, strict=True)] == [
        True,
        False,
    ]
    assert all(old.digest != new.digest for old, new in zip(before.variants, after.variants, strict=True))


def test_every_field_is_either_measured_or_named_as_not_measured(golden: Bench) -> None:
    """A new field of the model changes a digest unless it is left out on purpose."""
    experiment = golden.load(TEXT)
    assert changing_fields(experiment.tasks[1], digest_task) == {field.name for field in fields(TaskSpec)} - {
        "digest", "solution", "group", "tags", "metadata", "build_timeout_s",
    }  # fmt: skip
    assert changing_fields(experiment.variants[0], digest_variant) == {
        field.name for field in fields(Variant)
    } - {"digest"}
    assert changing_fields(experiment, digest_experiment) == {
        "trust", "on_system_change", "collect", "replications", "order", "seed", "grade_on_agent_failure",
    }  # fmt: skip


def test_what_follows_from_changed_systems_is_measured_only_where_images_are_run(golden: Bench) -> None:
    experiment = golden.load(TEXT)
    plans = [variant.sandbox for variant in experiment.variants]
    inside, outside = (
        replace(
            experiment,
            variants=tuple(
                replace(variant, sandbox=replace(plan, kind=kind))
                for variant, plan in zip(experiment.variants, plans, strict=True)
            ),
        )
        for kind in ("docker", "bubblewrap")
    )
    flagged, fresh = (
        [digest_experiment(replace(each, on_system_change=policy)) for each in (inside, outside)]
        for policy in ("flag", "afresh")
    )
    assert [one == other for one, other in zip(flagged, fresh, strict=True)] == [False, True]


def changing_fields(value: Experiment | TaskSpec | Variant, digest: Callable[[Any], str]) -> set[str]:
    changed = set()
    for field in fields(value):
        if field.name in ("tasks", "variants"):
            continue
        other = replace(value, **{field.name: ("something", "else")})  # type: ignore[arg-type] # wrong on purpose
        if digest(other) != digest(value):
            changed.add(field.name)
    return changed


def test_tasks_and_variants_count_in_their_order(golden: Bench) -> None:
    experiment = golden.load(TEXT)
    for name in ("tasks", "variants"):
        turned = replace(experiment, **{name: getattr(experiment, name)[::-1]})
        assert digest_experiment(turned) != experiment.digest


def test_the_same_file_in_two_places_resolves_to_the_same_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = fill(enter(tmp_path / "one", monkeypatch)).load(TEXT)
    two = fill(enter(tmp_path / "two", monkeypatch)).load(TEXT)
    assert digests(one) == digests(two) == GOLDEN
