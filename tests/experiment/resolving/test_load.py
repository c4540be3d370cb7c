import json
from pathlib import Path

import pytest

from labrunner.experiment.resolved import Network, Order, Resources, Setup, Solution, WorkspaceFile
from labrunner.experiment.resolving.load import load
from labrunner.experiment.run_policy import BreakerPolicy, KeepPolicy, Policy
from labrunner.policy.budget import Budget
from tests.kit.experiment.authoring import GRADER, SMALL, TASKS, Bench

COMPLETE = """
schema: 1
name: complete
description: all of it
tags: [nightly]
tasks:
  file: tasks.jsonl
  include: ["sort-*"]
  exclude: [sort-9]
  tags: [easy]
  limit: 2
variants:
  - id: baseline
    bindings: {model: small, turns: 5}
  - id: treatment
    bindings: {model: large, turns: 7}
    agent: {dir: agents/$model, env: {MAX_TURNS: "9", NOTE: null}, error_exit_codes: {75: null, 76: sandbox}}
    setup: {command: "make ready"}
    sandbox: {memory_mb: 4096}
setup: {command: [prepare, $model], timeout_s: 60, network: full}
agent:
  command: [$python, $agent_dir/agent.py, --model, $model, --in, $task_path, "$$5"]
  dir: agents/small
  stdin: prompt
  env: {MAX_TURNS: $turns, NOTE: hello, N: 3}
  secrets: [API_KEY]
  user: null
  network: full
  timeout_s: 100
  error_exit_codes: {75: provider}
  require_result: true
grader:
  command: [$python, -I, $grader_dir/grade.py]
  dir: grader
  env: {STRICT: "1"}
  secrets: [JUDGE_KEY]
  user: null
  network: none
  timeout_s: 30
  retries: 2
  pass_at: 0.5
  where: same
  repeatable: true
sandbox:
  {kind: bubblewrap, image: null, build: null, pull: preflight, prune_images: false, workdir: null, cpus: 1.5,
   memory_mb: 512, pids: null, disk_mb: null, read_only: false, tmpfs: {}, limits: best_effort}
trust: standard
on_system_change: flag
collect: []
keep: {workspace: always, logs: failed}
replications: 3
order: shuffled
seed: 11
max_concurrency: 4
grade_on_agent_failure: false
fail_on_error: 0.1
continue_on_fail: true
retry_on_error: 2
breaker: {after: 9, give_up_after_s: 600}
min_free_disk_gb: 1.5
budget: {cost_usd: null, tokens: null}
metadata: {owner: {team: a}}
"""
ROWS = """
{"id": "sort-1", "input": {"prompt": "sort"}, "target": [1, 2], "tags": ["easy"], "group": "g", "env": {"A": "$workspace"}}
{"id": "sort-2", "input": "sort more", "tags": ["easy"], "timeout_s": 5, "resources": {"memory_mb": 99}, "workspace": "repo", "files": {"./b.txt": "b", "a/run.sh": {"source": "run.sh"}}, "setup": {"command": "touch x"}, "grader": {"timeout_s": 7, "env": {"MORE": "2"}}, "metadata": {"k": 1}, "solution": "cp answer ."}
{"id": "sort-3", "input": "x", "tags": ["easy"]}
{"id": "sort-9", "input": "x", "tags": ["easy"]}
{"id": "other", "input": "x"}
"""  # noqa: E501 - rows are lines


@pytest.fixture
def complete(bench: Bench) -> Bench:
    return bench.write(
        tasks_jsonl=ROWS,
        agents__small__agent_py="small",
        agents__large__agent_py="large",
        grader__grade_py="grade",
        repo__main_c="main",
        run_sh="run",
    )


def test_every_authored_field_of_a_file_arrives(complete: Bench) -> None:
    experiment = complete.load(COMPLETE)
    assert (experiment.name, experiment.description, experiment.tags) == (
        "complete",
        "all of it",
        ("nightly",),
    )
    assert experiment.source == str(complete.root / "experiment.yaml")
    assert (experiment.replications, experiment.order, experiment.seed) == (3, Order.SHUFFLED, 11)
    assert experiment.grade_on_agent_failure is False
    assert experiment.metadata == {"owner": {"team": "a"}}
    assert experiment.policy == Policy(
        max_concurrency=4,
        fail_on_error=0.1,
        continue_on_fail=True,
        retry_on_error=2,
        breaker=BreakerPolicy(after=9, give_up_after_s=600.0),
        min_free_disk_gb=1.5,
        budget=Budget(cost_usd=None, tokens=None),
        keep=KeepPolicy(workspace="always", logs="failed"),
    )


def test_a_variant_is_the_experiments_agent_with_its_bindings(complete: Bench) -> None:
    baseline, _ = complete.load(COMPLETE).variants
    agent = baseline.agent
    assert agent.command == (
        "${python}", "${agent_dir}/agent.py", "--model", "small", "--in", "${task_path}", "$$5",
    )  # fmt: skip
    assert agent.dir is not None
    assert agent.dir.path == str(complete.root / "agents/small")
    assert agent.env == {"MAX_TURNS": "5", "NOTE": "hello", "N": "3"}
    assert (agent.stdin, agent.secrets, agent.user) == ("prompt", ("API_KEY",), None)
    assert (agent.network, agent.timeout_s) == (Network(mode="full"), 100.0)
    assert (agent.error_exit_codes, agent.require_result) == ({75: "provider"}, True)
    assert baseline.setup == Setup(command=("prepare", "small"), timeout_s=60.0, network=Network(mode="full"))


def test_a_variants_own_fields_lie_over_the_experiments(complete: Bench) -> None:
    baseline, treatment = complete.load(COMPLETE).variants
    assert treatment.agent.dir is not None
    assert treatment.agent.dir.path == str(complete.root / "agents/large")
    assert treatment.agent.env == {"MAX_TURNS": "9", "N": "3"}
    assert treatment.agent.error_exit_codes == {76: "sandbox"}
    assert treatment.agent.timeout_s == 100.0
    assert treatment.setup.command == ("sh", "-c", "make ready")
    assert treatment.setup.timeout_s == 60.0
    assert (baseline.sandbox.memory_mb, treatment.sandbox.memory_mb) == (512, 4096)


def test_a_variants_map_replaces_a_default_that_nobody_wrote(bench: Bench) -> None:
    text = SMALL + "variants: [{id: x}, {id: y, agent: {error_exit_codes: {9: sandbox}}}]\n"
    first, second = bench.load(text).variants
    assert (first.agent.error_exit_codes, second.agent.error_exit_codes) == ({75: "provider"}, {9: "sandbox"})


def test_limits_that_were_written_are_told_from_defaults(complete: Bench) -> None:
    baseline, treatment = complete.load(COMPLETE).variants
    plan = baseline.sandbox
    assert (plan.kind, plan.cpus, plan.memory_mb, plan.pids, plan.disk_mb) == (
        "bubblewrap",
        1.5,
        512,
        512,
        10240,
    )
    assert plan.limits == "best_effort"
    assert baseline.sandbox.asked == treatment.sandbox.asked == ("cpus", "memory_mb")


def test_tasks_are_filtered_by_pattern_then_tag_then_number(complete: Bench) -> None:
    assert [task.id for task in complete.load(COMPLETE).tasks] == ["sort-1", "sort-2"]


def test_a_task_brings_its_own_files_limits_setup_and_grader(complete: Bench) -> None:
    first, second = complete.load(COMPLETE).tasks
    assert (first.prompt, first.input, first.target, first.group) == ("sort", {"prompt": "sort"}, [1, 2], "g")
    assert first.env == {"A": "${workspace}"}
    assert (second.prompt, second.timeout_s, second.resources) == ("sort more", 5.0, Resources(memory_mb=99))
    assert second.workspace is not None
    assert second.workspace.path == str(complete.root / "repo")
    script, text = second.files
    assert script.path == "a/run.sh"
    assert script.source is not None
    assert script.source.path == str(complete.root / "run.sh")
    assert text == WorkspaceFile(path="b.txt", content="b", source=None)
    assert second.setup is not None
    assert (second.setup.command, second.setup.timeout_s) == (("sh", "-c", "touch x"), 60.0)
    assert (second.grader.timeout_s, second.grader.env) == (7.0, {"STRICT": "1", "MORE": "2"})
    assert second.grader.command == first.grader.command == ("${python}", "-I", "${grader_dir}/grade.py")
    assert second.solution == Solution(command=("sh", "-c", "cp answer ."))
    assert (first.grader.retries, first.grader.pass_at, first.grader.repeatable) == (2, 0.5, True)


def test_a_small_file_gets_the_documented_defaults(bench: Bench) -> None:
    experiment = bench.load(SMALL)
    (variant,) = experiment.variants
    assert (variant.id, variant.bindings, variant.setup) == ("baseline", {}, Setup())
    assert (variant.agent.timeout_s, variant.agent.network) == (3600.0, Network(mode="none"))
    assert variant.agent.error_exit_codes == {75: "provider"}
    plan = variant.sandbox
    assert (plan.kind, plan.cpus, plan.memory_mb, plan.pids, plan.disk_mb) == (
        "bubblewrap",
        2.0,
        2048,
        512,
        10240,
    )
    assert (plan.limits, plan.asked) == ("enforced", ())
    assert (experiment.replications, experiment.order, experiment.seed) == (1, Order.BALANCED, 0)
    assert (experiment.trust, experiment.on_system_change, experiment.collect) == ("standard", "afresh", ())
    assert experiment.grade_on_agent_failure
    assert experiment.policy == Policy(
        max_concurrency="auto",
        fail_on_error=True,
        continue_on_fail=False,
        retry_on_error=0,
        breaker=BreakerPolicy(after=5, give_up_after_s=None),
        min_free_disk_gb=5.0,
        budget=Budget(cost_usd=None, tokens=None),
        keep=KeepPolicy(workspace="failed", logs="always"),
    )
    grader = experiment.tasks[0].grader
    assert (grader.retries, grader.pass_at, grader.where, grader.repeatable) == (1, 1.0, "same", False)
    assert grader is experiment.tasks[1].grader, "tasks share what they have in common"


def test_a_matrix_gives_a_variant_for_each_combination(bench: Bench) -> None:
    text = f"name: x\n{TASKS}{GRADER}agent: {{command: [run, $model, $effort]}}\n"
    experiment = bench.load(text + "matrix: {model: [a, b], effort: [1, 2.5]}\n")
    assert [(variant.id, variant.agent.command) for variant in experiment.variants] == [
        ("model=a,effort=1", ("run", "a", "1")),
        ("model=a,effort=2.5", ("run", "a", "2.5")),
        ("model=b,effort=1", ("run", "b", "1")),
        ("model=b,effort=2.5", ("run", "b", "2.5")),
    ]
    assert experiment.variants[1].bindings == {"model": "a", "effort": 2.5}


def test_a_command_that_is_text_is_run_by_a_shell(bench: Bench) -> None:
    text = f"name: x\n{TASKS}{GRADER}agent: {{command: 'cd $workspace && echo $$HOME'}}\n"
    assert bench.load(text).variants[0].agent.command == ("sh", "-c", "cd ${workspace} && echo $$HOME")


def test_words_that_older_yaml_bends_stay_text(bench: Bench) -> None:
    rows = (
        "[{id: no, input: on}, {id: 010, input: 1:30}, {id: 0x1F, input: 2024-01-01}, {id: 1_0, input: +1}]"
    )
    experiment = bench.load(SMALL.replace(TASKS, f"tasks: {rows}\n"))
    assert [(task.id, task.input) for task in experiment.tasks] == [
        ("no", "on"),
        ("010", "1:30"),
        ("0x1F", "2024-01-01"),
        ("1_0", "+1"),
    ]


def test_numbers_and_words_of_json_are_what_they_are(bench: Bench) -> None:
    rows = '[{id: a, input: [true, False, null, ~, -1, 1.5e3, "1", .5]}]'
    (task,) = bench.load(SMALL.replace(TASKS, f"tasks: {rows}\n")).tasks
    assert task.input == [True, False, None, None, -1, 1500.0, "1", ".5"]


def test_a_prompt_may_stand_beside_or_instead_of_an_input(bench: Bench) -> None:
    rows = "[{id: a, prompt: do it}, {id: b, input: {x: 1}, prompt: do that}]"
    first, second = bench.load(SMALL.replace(TASKS, f"tasks: {rows}\n")).tasks
    assert (first.input, first.prompt) == ("do it", "do it")
    assert (second.input, second.prompt) == ({"x": 1}, "do that")


def test_a_bare_process_has_the_hosts_network_in_every_phase(bench: Bench) -> None:
    experiment = bench.load(SMALL + "sandbox: {kind: process}\n")
    (variant,) = experiment.variants
    phases = (variant.setup.network, variant.agent.network, experiment.tasks[0].grader.network)
    assert phases == (Network(mode="full"),) * 3


def test_a_network_that_one_variant_of_several_cannot_keep_is_refused(bench: Bench) -> None:
    mixed = "variants: [{id: x, sandbox: {kind: process}}, {id: y}]\n"
    closed = SMALL.replace("{command: [grade]}", "{command: [grade], network: none}")
    assert bench.complaint(closed + mixed).startswith(
        "experiment.yaml:4: grader.network: the process sandbox"
    )
    assert bench.load(closed).tasks[0].grader.network == Network(mode="none")


def test_graders_of_the_tasks_suffice_when_each_has_one(bench: Bench) -> None:
    rows = "tasks: [{id: a, input: x, grader: {command: check}}]\n"
    (task,) = bench.load(f"name: x\n{rows}agent: {{command: x}}\n").tasks
    assert task.grader.command == ("sh", "-c", "check")


def test_a_folder_means_its_experiment_file(bench: Bench) -> None:
    bench.write(experiment_yaml=SMALL)
    assert load(bench.root) == load(Path("experiment.yaml"))


def test_exit_codes_can_be_written_in_json(tmp_path: Path) -> None:
    agent = {"command": ["true"], "error_exit_codes": {"76": "sandbox"}}
    (tmp_path / "experiment.yaml").write_text(
        json.dumps(
            {
                "schema": 1,
                "name": "x",
                "tasks": [{"id": "t", "input": "x"}],
                "agent": agent,
                "grader": {"command": ["true"]},
            }
        )
    )
    experiment = load(tmp_path)
    assert experiment.variants[0].agent.error_exit_codes[76] == "sandbox"
