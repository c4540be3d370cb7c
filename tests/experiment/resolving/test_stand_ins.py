"""What stands in the place of an experiment's agent: `oracle`, `noop`, and what the command line names."""

from dataclasses import replace
from pathlib import Path

import pytest

from labrunner.experiment.digests import digest_experiment, digest_tried
from labrunner.experiment.options.overrides import Overrides
from labrunner.experiment.resolved import Network, Solution, Variant
from labrunner.experiment.resolving.load import load
from labrunner.experiment.revising.changes import changes
from tests.kit.experiment.authoring import GRADER, SMALL, Bench

SOLVED = f"""
name: solved
tasks:
  - {{id: a, input: do a, solution: "cp a b"}}
  - {{id: b, input: do b, solution: {{dir: answer, env: {{WAY: short}}}}}}
{GRADER}
"""
AGENT = (
    "agent: {command: [run-agent], user: app, timeout_s: 7, env: {KEY: x}, secrets: [TOKEN], stdin: prompt}\n"
)
ORACLE = "agent: {use: oracle}\n"


@pytest.fixture
def solved(bench: Bench) -> Bench:
    return bench.write(answer__solve_sh="echo done > result\n")


def only(bench: Bench, text: str, *agents: str, **options: object) -> Variant:
    [variant] = bench.load(text, Overrides(agents=agents, **options)).variants  # type: ignore[arg-type] # by name
    return variant


def test_a_solution_is_a_command_or_a_folder_with_a_script(solved: Bench) -> None:
    experiment = solved.load(SOLVED + ORACLE)
    first, second = (task.solution for task in experiment.tasks)
    assert first == Solution(command=("sh", "-c", "cp a b"))
    assert second is not None
    assert (second.command, second.env) == (("sh", "${agent_dir}/solve.sh"), {"WAY": "short"})
    assert second.dir == str(solved.root / "answer")
    (solved.root / "answer" / "solve.sh").chmod(0o755)
    [_, again] = solved.load(SOLVED + ORACLE).tasks
    assert again.solution is not None
    assert again.solution.command == ("${agent_dir}/solve.sh",)


@pytest.mark.parametrize(
    ("solution", "told"),
    [
        ("{dir: nowhere}", "solution.dir: the folder 'nowhere' does not exist"),
        ("{dir: empty}", "has no solve.sh; say what solves the task: {dir: …, command: …}"),
        ("{}", "must be a command, or {dir: folder} with a solve.sh in it"),
        ("[cp, $agent_dir/x]", "$agent_dir is used, but solution.dir names no folder"),
        ("[cp, $grader_dir/x]", "$grader_dir is hidden"),
        ("{dir: answer, file: x}", "file"),
        ("7", "solution"),
    ],
)
def test_a_solution_that_can_not_be_carried_out_is_refused(solved: Bench, solution: str, told: str) -> None:
    (solved.root / "empty").mkdir()
    text = f"name: n\ntasks: [{{id: a, input: x, solution: {solution}}}]\n{GRADER}{ORACLE}"
    assert told in solved.complaint(text)


def test_the_oracle_is_refused_where_tasks_have_no_solution(bench: Bench) -> None:
    told = bench.complaint(SMALL, Overrides(agents=("oracle",)))
    assert "variant 'oracle' carries out each task's solution, and a, b have none" in told
    assert "--task-id" in told


def test_an_agent_of_the_command_line_has_the_place_and_nothing_of_the_agent(solved: Bench) -> None:
    agent = only(solved, SOLVED + AGENT, "oracle").agent
    assert (agent.runs, agent.command, agent.user, agent.timeout_s) == ("solution", (), "app", 7)
    assert (agent.env, agent.secrets, agent.stdin, agent.dir) == ({}, (), "none", None)


def test_a_network_stays_without_the_models_of_the_agent(solved: Bench) -> None:
    models = "models: {m: {dialect: openai, key: OPENAI_API_KEY}}\n"
    text = SOLVED + models
    wide = only(solved, f"{text}agent: {{command: [x], network: {{models: [m], allow: full}}}}\n", "oracle")
    assert wide.agent.network == Network(mode="full")
    narrow = only(solved, f"{text}agent: {{command: [x], network: {{models: [m]}}}}\n", "oracle")
    assert narrow.agent.network == Network(mode="none")
    assert narrow.models == ()
    bare = "sandbox: {kind: process}\n"
    on_host = only(
        solved, f"{text}{bare}agent: {{command: [x], network: {{models: [m], allow: full}}}}\n", "noop"
    )
    assert on_host.agent.network == Network(mode="full")


def test_several_agents_are_several_variants(solved: Bench) -> None:
    experiment = solved.load(SOLVED + AGENT, Overrides(agents=("oracle", "noop")))
    assert [(each.id, each.agent.runs) for each in experiment.variants] == [
        ("oracle", "solution"),
        ("noop", "nothing"),
    ]
    told = solved.complaint(SOLVED + AGENT, Overrides(agents=("noop", "noop")))
    assert "--agent: 'noop' is named twice; keep one" in told


def test_stand_ins_are_variants_beside_an_agent_whose_settings_are_not_theirs(solved: Bench) -> None:
    text = f"{SOLVED}{AGENT}variants: [{{id: own}}, {{id: best, agent: {{use: oracle}}}}]\n"
    own, best = solved.load(text).variants
    assert (own.agent.command, own.agent.runs) == (("run-agent",), None)
    assert (best.agent.command, best.agent.runs, best.agent.user) == ((), "solution", "app")


def test_what_is_told_to_a_stand_in_is_refused(solved: Bench) -> None:
    told = solved.complaint(f"{SOLVED}agent: {{use: oracle, effort: low}}\n")
    assert "agent.effort: can't be told to the agent 'oracle'" in told
    told = solved.complaint(f"{SOLVED}agent: {{use: noop, command: [x]}}\n")
    assert "agent.command: can't be told to the agent 'noop'" in told
    told = solved.complaint(SOLVED + AGENT, Overrides(agents=("oracle",), model="openai/x"))
    assert "--agent: model: can't be told to the agent 'oracle'" in told


def test_variants_in_other_sandboxes_have_no_one_place(solved: Bench) -> None:
    text = SOLVED + AGENT + "variants: [{id: one}, {id: two, sandbox: {cpus: 1}}]\n"
    told = solved.complaint(text, Overrides(agents=("noop",)))
    assert (
        "--agent: the variants one, two differ in setup or sandbox; say in whose place, by --variant" in told
    )
    assert only(solved, text, "noop", variants=("two",)).sandbox.cpus == 1


def test_a_model_of_the_command_line_is_the_agents(bench: Bench) -> None:
    bench.write(
        mine_yaml="command: [mine, $model]\ndialects: [openai]\nenv: {URL: $model_url}\n",
    )
    chosen = only(bench, SMALL, "./mine.yaml", model="openai/gpt-5-mini")
    assert chosen.id == "mine"
    assert chosen.agent.named is not None
    assert chosen.agent.named.model == "openai/gpt-5-mini"
    [entry] = chosen.models
    assert (entry.name, entry.dialect, entry.key, entry.base_url) == (
        "openai",
        "openai",
        "OPENAI_API_KEY",
        None,
    )
    opened = SMALL.replace("agent: {", "agent: {network: full, ")
    assert only(bench, opened, "./mine.yaml", model="openai/x").agent.network == Network(
        mode="full", models=("openai",)
    )
    written = SMALL + "models: {openai: {dialect: openai, base_url: 'http://127.0.0.1:1/v1'}}\n"
    [entry] = only(bench, written, "./mine.yaml", model="openai/x").models
    assert entry.base_url == "http://127.0.0.1:1/v1"


def test_an_unknown_agent_is_told_with_the_known_ones(bench: Bench) -> None:
    told = bench.complaint(SMALL, Overrides(agents=("oracel",)))
    assert "--agent: use: the agent 'oracel' can't be used" in told
    assert "oracle" in told


def test_a_solution_counts_for_the_oracle_alone(solved: Bench) -> None:
    text = f"{SOLVED}{AGENT}variants: [{{id: own}}, {{id: best, agent: {{use: oracle}}}}]\n"
    before = solved.load(text)
    solved.write(answer__solve_sh="echo better > result\n")
    after = solved.load(text)
    assert [task.digest for task in before.tasks] == [task.digest for task in after.tasks]
    assert [each.digest for each in before.variants] == [each.digest for each in after.variants]
    assert changes(before, after) == ("solution changed for tasks: b",)
    tried = [
        [digest_tried(variant, task) for variant in each.variants for task in each.tasks]
        for each in (before, after)
    ]
    assert [old == new for old, new in zip(*tried, strict=True)] == [True, True, True, False]
    alone = [replace(each, variants=each.variants[:1]) for each in (before, after)]
    assert digest_experiment(alone[0]) == digest_experiment(alone[1])
    assert digest_experiment(before) != digest_experiment(after)


def test_a_folder_that_an_agent_reads_must_not_hold_a_solution(solved: Bench) -> None:
    text = SOLVED + "agent: {command: [x], dir: answer}\n"
    assert "holds the folder of a task's solution" in solved.complaint(text)


def test_a_file_of_an_agent_is_found_from_elsewhere_later(
    solved: Bench, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from labrunner.experiment.options.asked import asked_in_words

    solved.write(mine_yaml="runs: nothing\n", experiment_yaml=SOLVED)
    asked = asked_in_words({"agent": ["mine.yaml"]})
    monkeypatch.chdir(tmp_path)  # as a retry may be started anywhere
    [variant] = load(solved.root / "experiment.yaml", asked.overrides).variants
    assert variant.id == "mine"
