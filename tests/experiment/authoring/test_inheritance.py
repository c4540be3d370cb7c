from pathlib import Path

from labrunner.experiment.resolving.load import load
from tests.kit.experiment.authoring import SMALL, Bench

BASE = """\
name: base
tasks: tasks.jsonl
agent: {command: [run, a, b], dir: agent, env: {A: "1", B: "2"}}
grader: {command: grade}
variants: [{id: x}, {id: y}]
replications: 3
"""


def bases(bench: Bench) -> Bench:
    return bench.write(
        shared__base_yaml=BASE,
        shared__tasks_jsonl='{"id": "a", "input": 1}\n',
        shared__agent__run_sh="run",
        own__agent__run_sh="another",
    )


def test_maps_are_merged_and_everything_else_is_replaced(bench: Bench) -> None:
    bases(bench)
    own = "extends: shared/base.yaml\nname: own\nagent: {command: [go], env: {B: '3'}}\nvariants: [{id: z}]\n"
    experiment = bench.load(own)
    (variant,) = experiment.variants
    assert (experiment.name, experiment.replications, variant.id) == ("own", 3, "z")
    assert variant.agent.command == ("go",)
    assert variant.agent.env == {"A": "1", "B": "3"}


def test_paths_start_from_the_file_that_they_stand_in(bench: Bench) -> None:
    bases(bench).write(own__experiment_yaml="extends: ../shared/base.yaml\n")
    inherited = load(bench.root / "own" / "experiment.yaml")
    assert inherited.tasks[0].id == "a"
    folder = inherited.variants[0].agent.dir
    assert folder is not None
    assert folder.path == str(bench.root / "shared/agent")
    bench.write(own__experiment_yaml="extends: ../shared/base.yaml\nagent: {dir: agent}\n")
    replaced = load(bench.root / "own" / "experiment.yaml").variants[0].agent.dir
    assert replaced is not None
    assert replaced.path == str(bench.root / "own/agent")


def test_a_base_may_have_a_base(bench: Bench) -> None:
    bases(bench).write(middle_yaml="extends: shared/base.yaml\nreplications: 5\nseed: 1\n")
    experiment = bench.load("extends: middle.yaml\nseed: 2\n")
    assert (experiment.name, experiment.replications, experiment.seed) == ("base", 5, 2)


def test_a_circle_of_bases_is_refused(bench: Bench) -> None:
    bench.write(a_yaml="extends: b.yaml\n", b_yaml="extends: a.yaml\n")
    said = bench.complaint(f"{SMALL}extends: a.yaml\n")
    circle = "experiment.yaml > a.yaml > b.yaml > a.yaml"
    assert said == f"b.yaml:1: extends: the files extend each other in a circle: {circle}"


def test_messages_name_the_file_that_a_field_stands_in(bench: Bench) -> None:
    bases(bench).write(shared__base_yaml=BASE.replace("replications: 3", "replications: 0"))
    said = bench.complaint("extends: shared/base.yaml\nname: own\nseed: x\n")
    assert said.splitlines() == [
        "experiment.yaml:3: seed: must be a whole number, found text 'x'",
        "shared/base.yaml:6: replications: must be at least 1, found the number 0",
    ]


def test_a_merged_map_stands_where_it_was_written_last(bench: Bench) -> None:
    bases(bench).write(shared__base_yaml=BASE.replace("command: [run, a, b], ", ""))
    said = bench.complaint("extends: shared/base.yaml\nname: own\nagent: {timeout_s: 5}\n")
    assert said.startswith("experiment.yaml:3: agent.command: is missing")


def test_a_list_over_a_map_leaves_no_trace_of_the_map(bench: Bench) -> None:
    bases(bench).write(shared__base_yaml=BASE.replace("tasks.jsonl", "{file: tasks.jsonl, limit: 1}"))
    said = bench.complaint("extends: shared/base.yaml\ntasks:\n  - {id: q, inptu: 1}\n")
    assert said == "experiment.yaml:3: tasks.0.inptu: there is no such field; did you mean 'input'?"


def test_a_file_alone_equals_the_same_file_by_extends(bench: Bench) -> None:
    bench.write(base_yaml=SMALL, empty_yaml="extends: base.yaml\n")
    assert load(Path("empty.yaml")).digest == load(Path("base.yaml")).digest
