"""What people are told about experiment files that can't be run: where, what was found, what to do."""

# ruff: noqa: E501 - messages stand as people read them

from pathlib import Path

import pytest

from labrunner.errors import ExitCode, InputError
from labrunner.experiment.resolving.load import load
from tests.kit.experiment.authoring import AGENT, GRADER, SMALL, TASKS, Bench

HEAD = f"name: small\n{AGENT}{GRADER}"
FAIL_ON_ERROR = (
    "must be true (fail at the first error), false (never), a share of the planned trials between 0 and 1, "
    "or a number of trials from 1 on"
)

# Each file, and the whole of what is said about it.
BROKEN: dict[str, tuple[str, str]] = {
    # the file itself
    "an empty file": (
        "",
        "experiment.yaml: an experiment file is a map of fields (name, tasks, agent, …), found nothing",
    ),
    "a list": (
        "- a\n",
        "experiment.yaml: an experiment file is a map of fields (name, tasks, agent, …), found a list",
    ),
    "broken YAML": (
        "name: small\ntasks: [a, b\n",
        "experiment.yaml:3: is not valid YAML: did not find expected ',' or ']'",
    ),
    "a tab for indentation": (
        "agent:\n\tcommand: x\n",
        "experiment.yaml:2: is not valid YAML: found character that cannot start any token",
    ),
    "a field twice": (
        f"{SMALL}name: other\n",
        "experiment.yaml:5: 'name' stands twice in the same map; keep one",
    ),
    "a merge key": (
        "x: &x {a: 1}\nagent:\n  <<: *x\n",
        "experiment.yaml:3: merge keys (<<) are not read; write the fields out, or use extends",
    ),
    "a tag": (
        "name: !!python/name:os.system x\n",
        "experiment.yaml:1: the tag tag:yaml.org,2002:python/name:os.system is not read; write plain values",
    ),
    "an alias that holds itself": (
        "metadata: &a\n  x: *a\n",
        "experiment.yaml:1: an alias that holds itself, or far too many of them: write it out",
    ),
    "thousands of lists in each other": (
        f"name: x\nmetadata: {'[' * 50_000}\n",
        "experiment.yaml:2: is nested more than 100 levels deep; write it flatter",
    ),
    "thousands of lists in each other, by indentation": (
        f"metadata:\n  {'- ' * 50_000}x\n",
        "experiment.yaml:2: is nested more than 100 levels deep; write it flatter",
    ),
    "hundreds of lists in each other, by aliases": (
        "a0: &a0 [1]\n" + "".join(f"a{n}: &a{n} [*a{n - 1}]\n" for n in range(1, 200)),
        "experiment.yaml:1: is nested more than 100 levels deep; write it flatter",
    ),
    "a field's name that is no text": (
        "true: 1\n",
        "experiment.yaml:1: a field's name must be text; quote it",
    ),
    # fields of the file
    "an unknown field": (
        f"{SMALL}replicatons: 3\n",
        "experiment.yaml:5: replicatons: there is no such field; did you mean 'replications'?",
    ),
    "an unknown field deep inside": (
        f"name: x\n{TASKS}{GRADER}agent:\n  command: x\n  zzz: 1\n",
        "experiment.yaml:6: agent.zzz: there is no such field; known fields: use, version, model, effort, turns, "
        "system_prompt, args, files, command, dir, stdin, env, secrets, user, network, limits, timeout_s, error_exit_codes, "
        "require_result, exit_tells",
    ),
    "a relative folder of an image": (
        f"{SMALL}sandbox: {{workdir: src}}\n",
        "experiment.yaml:5: sandbox.workdir: must be a path inside the image that begins with / and has no '..', found 'src'",
    ),
    "a folder in memory without a size": (
        f"{SMALL}sandbox: {{tmpfs: {{/tmp: big}}}}\n",
        "experiment.yaml:5: sandbox.tmpfs: /tmp must have a size such as 64m, or mount options such as size=64m,exec; found text 'big'",
    ),
    "no name": (
        f"{TASKS}{AGENT}{GRADER}",
        "experiment.yaml: name: is missing; a short name for the experiment, such as sort-demo",
    ),
    "no tasks": (
        HEAD,
        "experiment.yaml: tasks: is missing; a task file such as tasks.jsonl, or a list of tasks",
    ),
    "a newer schema": (
        f"{SMALL}schema: 2\n",
        "experiment.yaml:5: schema: this lab reads schema 1, found the number 2; a newer lab may read it",
    ),
    "a name that YAML made a number of": (
        f"name: 5\n{TASKS}{AGENT}{GRADER}",
        "experiment.yaml:1: name: must be text, found the number 5; quote it",
    ),
    "text for a number": (
        f"{SMALL}replications: three\n",
        "experiment.yaml:5: replications: must be a whole number, found text 'three'",
    ),
    "half a replication": (
        f"{SMALL}replications: 1.5\n",
        "experiment.yaml:5: replications: must be a whole number, found the number 1.5",
    ),
    "no replication": (
        f"{SMALL}replications: 0\n",
        "experiment.yaml:5: replications: must be at least 1, found the number 0",
    ),
    "yes for true": (
        f"{SMALL}continue_on_fail: yes\n",
        "experiment.yaml:5: continue_on_fail: must be true or false, found text 'yes'",
    ),
    "an unknown order": (
        f"{SMALL}order: random\n",
        "experiment.yaml:5: order: must be 'balanced', 'by_variant', 'by_task' or 'shuffled', found text 'random'",
    ),
    "a time limit of zero": (
        f"name: x\n{TASKS}{GRADER}agent: {{command: x, timeout_s: 0}}\n",
        "experiment.yaml:4: agent.timeout_s: must be greater than 0, found the number 0",
    ),
    "an endless time limit": (
        f"name: x\n{TASKS}{GRADER}agent: {{command: x, timeout_s: 1e999}}\n",
        "experiment.yaml:4: agent.timeout_s: must be a finite number, found the number inf",
    ),
    "a time limit with a leading zero": (
        f"name: x\n{TASKS}{GRADER}agent: {{command: x, timeout_s: 060}}\n",
        "experiment.yaml:4: agent.timeout_s: must be a number, found text '060'",
    ),
    "a negative seed": (
        f"{SMALL}seed: -1\n",
        "experiment.yaml:5: seed: must be at least 0, found the number -1",
    ),
    "concurrency zero": (
        f"{SMALL}max_concurrency: 0\n",
        "experiment.yaml:5: max_concurrency: must be auto or a whole number from 1 on, found the number 0",
    ),
    "fail_on_error 0": (
        f"{SMALL}fail_on_error: 0\n",
        f"experiment.yaml:5: fail_on_error: {FAIL_ON_ERROR}, found the number 0; to allow no error at all, write true",
    ),
    "fail_on_error below 0": (
        f"{SMALL}fail_on_error: -0.1\n",
        f"experiment.yaml:5: fail_on_error: {FAIL_ON_ERROR}, found the number -0.1",
    ),
    "fail_on_error no number": (
        f"{SMALL}fail_on_error: .nan\n",
        f"experiment.yaml:5: fail_on_error: {FAIL_ON_ERROR}, found text '.nan'",
    ),
    "fail_on_error a word": (
        f"{SMALL}fail_on_error: never\n",
        f"experiment.yaml:5: fail_on_error: {FAIL_ON_ERROR}, found text 'never'",
    ),
    "metadata that is no map": (
        f"{SMALL}metadata: [1]\n",
        "experiment.yaml:5: metadata: must be a map, found a list",
    ),
    "metadata with a number as key": (
        f"{SMALL}metadata: {{1: a}}\n",
        "experiment.yaml:5: metadata: holds the key 1, which is no text; quote it",
    ),
    # agent and grader
    "no agent": (
        f"name: x\n{TASKS}{GRADER}",
        "experiment.yaml: agent.command: is missing; say what starts the agent, as a list or a text, or "
        "name an agent: use, or --agent",
    ),
    "no grader": (
        f"name: x\n{TASKS}{AGENT}",
        "experiment.yaml: grader.command: is missing; say what starts the grader, as a list or a text",
    ),
    "a number in a command": (
        f"name: x\n{TASKS}{GRADER}agent: {{command: [head, -n, 5]}}\n",
        "experiment.yaml:4: agent.command: item 2 must be text, found the number 5; quote it",
    ),
    "an empty command": (
        f'name: x\n{TASKS}{GRADER}agent: {{command: " "}}\n',
        "experiment.yaml:4: agent.command: must be a list of texts, or one text that sh -c runs, found empty text",
    ),
    "a command that is a map": (
        f"name: x\n{TASKS}{GRADER}agent: {{command: {{run: x}}}}\n",
        "experiment.yaml:4: agent.command: must be a list of texts, or one text that sh -c runs, found a map",
    ),
    "an unknown name": (
        f"name: x\n{TASKS}{GRADER}agent: {{command: [run, $modell]}}\nvariants: [{{id: v, bindings: {{model: m}}}}]\n",
        "experiment.yaml:4: agent.command: unknown name '$modell'; known in variant 'v': $model, $prompt_path, $python, "
        "$task_path, $workspace; write $$ for a dollar sign",
    ),
    "a shell's own dollar": (
        f"name: x\n{TASKS}{GRADER}agent: {{command: 'echo $(date)'}}\n",
        "experiment.yaml:4: agent.command: '$(' is no name to put in; known in variant 'baseline': $prompt_path, $python, "
        "$task_path, $workspace; write $$ for a dollar sign",
    ),
    "a list as a binding in a command": (
        f"name: x\n{TASKS}{GRADER}agent: {{command: [run, $l]}}\nvariants: [{{id: v, bindings: {{l: [1]}}}}]\n",
        "experiment.yaml:4: agent.command: binding 'l' is a list or map, and only text, numbers, true and false can be put in "
        "(in variant 'v')",
    ),
    "the grader's folder named to the agent": (
        f"name: x\n{TASKS}{GRADER}agent: {{command: [ls, $grader_dir]}}\n",
        "experiment.yaml:4: agent.command: $grader_dir is hidden: the grader's files are not there before the agent has ended",
    ),
    "the grader's folder named in a variable of an agent with a folder": (
        f"name: x\n{TASKS}{GRADER}agent: {{command: x, dir: ., env: {{A: $grader_dir}}}}\n",
        "experiment.yaml:4: agent.env.A: $grader_dir is hidden: the grader's files are not there before the agent has ended",
    ),
    "the agent's folder without one": (
        f"name: x\n{TASKS}{GRADER}agent: {{command: [$agent_dir/run]}}\n",
        "experiment.yaml:4: agent.command: $agent_dir is used, but agent.dir names no folder",
    ),
    "a binding in the grader": (
        f"name: x\n{TASKS}{AGENT}grader: {{command: [grade, $model]}}\nvariants: [{{id: v, bindings: {{model: m}}}}]\n",
        "experiment.yaml:4: grader.command: $model is a binding of a variant, and tasks and graders are the same for all of "
        "them; read it from the file that $$AGENTLAB_BINDINGS_PATH names",
    ),
    "a built-in name in a folder": (
        f"name: x\n{TASKS}{GRADER}agent: {{command: x, dir: $workspace/a}}\n",
        "experiment.yaml:4: agent.dir: $workspace is a path inside the sandbox, so it can't be used here",
    ),
    "a folder that is not there": (
        f"name: x\n{TASKS}{GRADER}agent: {{command: x, dir: agnet}}\n",
        "experiment.yaml:4: agent.dir: the folder 'agnet' does not exist",
    ),
    "a file for a folder": (
        f"name: x\n{TASKS}{AGENT}grader: {{command: x, dir: experiment.yaml}}\n",
        "experiment.yaml:4: grader.dir: 'experiment.yaml' is no folder",
    ),
    "a variable with a number that loses something": (
        f"name: x\n{TASKS}{GRADER}agent: {{command: x, env: {{VERSION: 1.10}}}}\n",
        "experiment.yaml:4: agent.env: the value of VERSION must be text, found the number 1.1; quote it",
    ),
    "a variable's name that is none": (
        f"name: x\n{TASKS}{GRADER}agent: {{command: x, env: {{A-B: x}}}}\n",
        "experiment.yaml:4: agent.env: 'A-B' can't be a variable's name: letters, digits and _, no digit first",
    ),
    "a variable of ours": (
        f"name: x\n{TASKS}{GRADER}agent: {{command: x, env: {{AGENTLAB_TASK_ID: x}}}}\n",
        "experiment.yaml:4: agent.env: the variable AGENTLAB_TASK_ID is set by lab; choose another name",
    ),
    "a secret with its value": (
        f"name: x\n{TASKS}{GRADER}agent: {{command: x, secrets: [KEY=hunter2]}}\n",
        "experiment.yaml:4: agent.secrets.0: is no variable's name; values of secrets never stand in a file",
    ),
    "a secret that is in env too": (
        f"name: x\n{TASKS}{GRADER}agent: {{command: x, secrets: [KEY], env: {{KEY: x}}}}\n",
        "experiment.yaml:4: agent.secrets.0: KEY stands in env too; keep one of them",
    ),
    "success as an error": (
        f"name: x\n{TASKS}{GRADER}agent: {{command: x, error_exit_codes: {{0: provider}}}}\n",
        "experiment.yaml:4: agent.error_exit_codes: '0' can't be an exit status that blames somebody: a whole number from 1 to 255",
    ),
    "an agent that blames the grader": (
        f"name: x\n{TASKS}{GRADER}agent: {{command: x, error_exit_codes: {{75: grade_error}}}}\n",
        "experiment.yaml:4: agent.error_exit_codes: the cause of exit status 75 must be one of provider, sandbox, setup, solver, "
        "found text 'grade_error'",
    ),
    "an unknown network": (
        f"name: x\n{TASKS}{GRADER}agent: {{command: x, network: some}}\n",
        "experiment.yaml:4: agent.network: must be none, full or {models: [name, …], allow: [host, …]}, found text 'some'",
    ),
    "a prompt that a task does not have": (
        f"name: x\n{GRADER}tasks: [{{id: a, input: {{x: 1}}}}]\nagent: {{command: x, stdin: prompt}}\n",
        "experiment.yaml:4: agent.stdin: agent.stdin feeds the task's text, but task 'a' has none; give it a prompt, or an input "
        "that is text",
    ),
    "a path of a prompt that a task does not have": (
        f"name: x\n{GRADER}tasks: [{{id: a, input: {{x: 1}}}}]\nagent: {{command: [cat, $prompt_path]}}\n",
        "experiment.yaml:4: agent.command: $prompt_path names the task's text, but task 'a' has none; give it a prompt, or an input "
        "that is text",
    ),
    # variants
    "a variant twice": (
        f"{SMALL}variants:\n  - id: v\n  - id: v\n",
        "experiment.yaml:7: variants.1.id: there is another variant 'v'; ids must differ",
    ),
    "a variant without id": (
        f"{SMALL}variants:\n  - bindings: {{}}\n",
        "experiment.yaml:6: variants.0.id: is missing; text that no other one here has",
    ),
    "a variant whose id is a number": (
        f"{SMALL}variants: [{{id: 7}}]\n",
        'experiment.yaml:5: variants.0.id: ids are text, found the number 7; quote it: "7"',
    ),
    "a variant with a grader": (
        f"{SMALL}variants: [{{id: v, grader: {{}}}}]\n",
        "experiment.yaml:5: variants.0.grader: there is no such field; known fields: id, bindings, agent, setup, sandbox",
    ),
    "a binding called like a built-in name": (
        f"{SMALL}variants: [{{id: v, bindings: {{python: x}}}}]\n",
        "experiment.yaml:5: variants.0.bindings.python: $python is a built-in name; call the binding something else",
    ),
    "a binding that can't be named": (
        f"{SMALL}variants: [{{id: v, bindings: {{max-turns: 5}}}}]\n",
        "experiment.yaml:5: variants.0.bindings.max-turns: 'max-turns' can't be a binding's name: letters, digits and _, no digit first",
    ),
    "matrix beside variants": (
        f"{SMALL}variants: [{{id: v}}]\nmatrix: {{model: [a]}}\n",
        "experiment.yaml:6: matrix: stands beside variants; keep one of them",
    ),
    "an empty axis of a matrix": (
        f"{SMALL}matrix: {{model: []}}\n",
        "experiment.yaml:5: matrix.model: must hold at least one value",
    ),
    "an axis with a list in it": (
        f"{SMALL}matrix: {{model: [a, [b]]}}\n",
        "experiment.yaml:5: matrix.model.1: must be text, a number, true or false, found a list",
    ),
    "an axis with the same value twice": (
        f"{SMALL}matrix: {{model: [a, a]}}\n",
        "experiment.yaml:5: matrix.model.1: 'a' stands here twice; keep one",
    ),
    # tasks
    "no task": (
        f"{HEAD}tasks: []\n",
        "experiment.yaml:4: tasks: holds no task; one row a task, with id and input",
    ),
    "a task without id": (
        f"{HEAD}tasks:\n  - input: x\n",
        "experiment.yaml:5: tasks.0.id: is missing; text that no other one here has",
    ),
    "a task's id that is a number": (
        f"{HEAD}tasks:\n  - {{id: 1.5, input: x}}\n",
        'experiment.yaml:5: tasks.0.id: ids are text, found the number 1.5; quote it: "1.5"',
    ),
    "a task's id of two lines": (
        f'{HEAD}tasks:\n  - {{id: "a\\nb", input: x}}\n',
        "experiment.yaml:5: tasks.0.id: must be one line of at most 200 characters, found text 'a b'",
    ),
    "a task with nothing to solve": (
        f"{HEAD}tasks:\n  - {{id: a}}\n",
        "experiment.yaml:5: tasks.0: has neither input nor prompt; one of them says what is to be solved",
    ),
    "a task twice": (
        f"{HEAD}tasks:\n  - {{id: a, input: x}}\n  - {{id: a, input: y}}\n",
        "experiment.yaml:6: tasks.1.id: there is another task 'a' (experiment.yaml:5: tasks.0.id); ids must differ",
    ),
    "a task that is text": (
        f"{HEAD}tasks: [a]\n",
        "experiment.yaml:4: tasks.0: must be a map of fields, found text 'a'",
    ),
    "a task file that is not there": (
        f"{HEAD}tasks: tasks.jsonl\n",
        "experiment.yaml:4: tasks: the task file 'tasks.jsonl' can't be read: No such file or directory",
    ),
    "a task file of another kind": (
        f"{HEAD}tasks: {{file: tasks.arrow}}\n",
        "experiment.yaml:4: tasks.file: 'tasks.arrow' can't be read: there is no task source '.arrow'; known: .jsonl, .ndjson, .json, .csv, .parquet (built in)",
    ),
    "an absolute path in a workspace": (
        f"{HEAD}tasks: [{{id: a, input: x, files: {{/etc/passwd: x}}}}]\n",
        "experiment.yaml:4: tasks.0.files: '/etc/passwd' leaves the workspace; write a relative path without '..'",
    ),
    "a path out of a workspace": (
        f"{HEAD}tasks: [{{id: a, input: x, files: {{a/../../b: x}}}}]\n",
        "experiment.yaml:4: tasks.0.files: 'a/../../b' leaves the workspace; write a relative path without '..'",
    ),
    "a file inside a file": (
        f"{HEAD}tasks: [{{id: a, input: x, files: {{a: x, a/b: y}}}}]\n",
        "experiment.yaml:4: tasks.0.files: 'a' is a file here, so 'a/b' can't lie in it",
    ),
    "a source that is not there": (
        f"{HEAD}tasks: [{{id: a, input: x, files: {{m.py: {{source: m.py}}}}}}]\n",
        "experiment.yaml:4: tasks.0.files.m.py: the file 'm.py' does not exist",
    ),
    "a workspace that is no archive": (
        f"{HEAD}tasks: [{{id: a, input: x, workspace: experiment.yaml}}]\n",
        "experiment.yaml:4: tasks.0.workspace: 'experiment.yaml' is neither a folder nor an archive (.tar, .tar.gz, .tgz, .zip)",
    ),
    "a task's grader with a wrong field": (
        f"{HEAD}tasks: [{{id: a, input: x, grader: {{timout_s: 5}}}}]\n",
        "experiment.yaml:4: tasks.0.grader.timout_s: there is no such field; did you mean 'timeout_s'?",
    ),
    # filters
    "a pattern that matches nothing": (
        f"{HEAD}tasks: {{file: two.jsonl, include: [sort-3]}}\n",
        "experiment.yaml:4: tasks.include: no task's id matches 'sort-3'; nearest: sort-2, sort-1",
    ),
    "an unknown tag": (
        f"{HEAD}tasks: {{file: two.jsonl, tags: [hrad]}}\n",
        "experiment.yaml:4: tasks.tags: no task has the tag 'hrad'; known: hard",
    ),
    "filters that leave nothing": (
        f"{HEAD}tasks: {{file: two.jsonl, include: [sort-1], tags: [hard]}}\n",
        "experiment.yaml:4: tasks.include: the filters together leave none of the 2 tasks",
    ),
    # extends
    "a base that is not there": (
        f"{SMALL}extends: base.yaml\n",
        "experiment.yaml:5: extends: the base file 'base.yaml' does not exist",
    ),
    "a file that extends itself": (
        f"{SMALL}extends: experiment.yaml\n",
        "experiment.yaml:5: extends: the files extend each other in a circle: experiment.yaml > experiment.yaml",
    ),
    "two bases": (
        f"{SMALL}extends: [a.yaml, b.yaml]\n",
        "experiment.yaml:5: extends: must be the path of one base file, such as base.yaml",
    ),
    # sandboxes
    "no network in a bare process": (
        f"name: x\n{TASKS}{GRADER}sandbox: {{kind: process}}\nagent: {{command: x, network: none}}\n",
        "experiment.yaml:5: agent.network: the process sandbox has no network isolation, found none; write full, or use bubblewrap",
    ),
    "an unknown sandbox": (
        f"{SMALL}sandbox: {{kind: podman}}\n",
        "experiment.yaml:5: sandbox.kind: there is no sandbox kind 'podman'; known: bubblewrap, docker, process (built in)",
    ),
    "no memory": (
        f"{SMALL}sandbox: {{memory_mb: 0}}\n",
        "experiment.yaml:5: sandbox.memory_mb: must be at least 1, found the number 0",
    ),
    "memory with a unit": (
        f"{SMALL}sandbox: {{memory_mb: 2g}}\n",
        "experiment.yaml:5: sandbox.memory_mb: must be a whole number, found text '2g'",
    ),
    "a budget of nothing": (
        f"{SMALL}budget: {{cost_usd: 0}}\n",
        "experiment.yaml:5: budget.cost_usd: must be greater than 0, found the number 0",
    ),
    "a budget of half a token": (
        f"{SMALL}budget: {{tokens: 0.5}}\n",
        "experiment.yaml:5: budget.tokens: must be a whole number, found the number 0.5",
    ),
    "a breaker that never opens": (
        f"{SMALL}breaker: {{after: 0}}\n",
        "experiment.yaml:5: breaker.after: must be at least 1, found the number 0",
    ),
}


@pytest.mark.parametrize(("text", "message"), BROKEN.values(), ids=BROKEN.keys())
def test_a_broken_experiment_file_is_refused_with_the_message_a_person_needs(
    bench: Bench, text: str, message: str
) -> None:
    bench.write(two_jsonl='{"id": "sort-1", "input": 1}\n{"id": "sort-2", "input": 1, "tags": ["hard"]}\n')
    assert bench.complaint(text) == message


def test_all_problems_are_told_in_one_go_in_the_order_of_their_lines(bench: Bench) -> None:
    blank = "\n" * 9
    said = bench.complaint(f"order: x\nname: x\nseed: -1\n{blank}agent: {{timeout_s: -1}}\ntasks: []\n")
    assert [line.split(": ")[:2] for line in said.splitlines()] == [
        ["experiment.yaml:1", "order"],
        ["experiment.yaml:3", "seed"],
        ["experiment.yaml:13", "agent.timeout_s"],
    ]


def test_problems_of_tasks_agent_and_grader_are_told_together(bench: Bench) -> None:
    said = bench.complaint(
        "name: x\ntasks: [{id: 1, input: x}, {id: a, inptu: x}]\nagent: {command: [$x]}\ngrader: {dir: g}\n"
    )
    assert [line.split(": ")[1] for line in said.splitlines()] == [
        "tasks.0.id",
        "tasks.1.inptu",
        "agent.command",
        "grader.command",
        "grader.dir",
    ]


def test_a_thousand_problems_do_not_flood_the_terminal(bench: Bench) -> None:
    bench.write(t_jsonl="".join(f'{{"id": {number}, "input": 1}}\n' for number in range(1000)))
    lines = bench.complaint(f"{HEAD}tasks: t.jsonl\n").splitlines()
    assert len(lines) == 51
    assert lines[-1] == "… and 950 more problems"


def test_a_missing_file_points_to_init(bench: Bench) -> None:
    with pytest.raises(InputError, match=r"nope\.yaml: there is no such file; `lab init` writes") as caught:
        load(Path("nope.yaml"))
    assert caught.value.exit_code is ExitCode.BAD_INPUT


@pytest.mark.parametrize(("sign", "kind"), [("task.toml", "harbor"), ("task.yaml", "terminal-bench")])
@pytest.mark.parametrize("folder", ["theirs", "theirs/one"])
def test_a_folder_of_other_peoples_tasks_is_named_by_their_kind(
    bench: Bench, sign: str, kind: str, folder: str
) -> None:
    Path("theirs/one").mkdir(parents=True)
    Path("theirs/one", sign).touch()
    with pytest.raises(InputError, match=rf"which are run with `{kind}:` before .*: {kind}:{folder}$"):
        load(Path(folder, "experiment.yaml"))
