"""The prose of the reference page of experiment files, before and after the tables of fields."""

from typing import Final

BEFORE: Final = """\
# Experiment files

<!-- Written by `python -m labrunner.experiment.authoring.experiment_page`; edit the models. -->

An experiment file says what is asked: tasks x variants x replications, with a sandbox, an agent and a
grader, and how a run of it is carried out. This is a whole one:

```yaml
name: sort-demo
tasks: tasks.jsonl
variants:
  - id: small
    bindings: {model: small}
  - id: large
    bindings: {model: large}
    agent: {timeout_s: 1200}
agent:
  command: [python3, $agent_dir/agent.py, --model, $model]
  dir: agent
grader:
  command: [python3, $grader_dir/grade.py]
  dir: grader
replications: 3
```

Unknown fields, wrong types and names that don't exist are refused before anything runs, all of them in
one go, each with file, line and field. `lab plan` shows the experiment as it was resolved.

YAML is read with few surprises: `true`, `false` and `null` are the only special words, numbers are
written as in JSON, and everything else (`yes`, `on`, `007`, `12:30`, `2024-01-01`) is text. A key that
stands twice in a map, merge keys (`<<`) and tags are refused. Relative paths start from the file that
they stand in.
"""

AFTER: Final = """\
## Names in texts

`$name` or `${name}` in commands, `dir`, `image` and values of `env` puts something in. `$$` is a dollar
sign.

- A binding of the variant: text, a number, `true` or `false`. In the commands, variables and `dir` of
  agent and setup, and in `image`. Not in graders and tasks, which are the same for all variants: a grader
  that wants a binding reads it from the file that `AGENTLAB_BINDINGS_PATH` names.
- A built-in name, in commands and variables: `$agent_dir` (agent and setup), `$grader_dir` (grader),
  `$workspace`, `$task_path`, `$prompt_path`, `$python` (the interpreter that runs `lab`).

Bindings may not be called like built-in names. An unknown name is an error that lists the known ones.

## Task files

- `.jsonl`: one JSON object a line. `.json`: a list of them, or `{"tasks": [...]}`.
- `.csv`: the first line names the fields. Cells are text, whatever they look like, unless the column's
  name ends in `:json` (`target:json`, `timeout_s:json`). A column `input.question` sets the field
  `question` of `input` (likewise `metadata.level`, `env.NAME`, `files.main.py`). Tags are separated by
  `,` or `;`. An empty cell leaves its field out.

Ids are text. In YAML and JSON a number is refused, since `007` and `1.10` would lose something: quote it.

## Merging

`extends`, and a variant's `agent`, `setup` and `sandbox`, follow one rule: maps are merged, lists and
single values replaced. In `env` and `error_exit_codes` a null takes away what a base had put there.

## Digests

The experiment's digest covers what is measured: tasks with their graders, variants with agent, setup and
sandbox, order, seed, replications, trust, `collect`, `grade_on_agent_failure`, `on_system_change`. Not
covered: policy (`fail_on_error`, `continue_on_fail`, `retry_on_error`, `max_concurrency`, `executor`,
`breaker`, `budget`, `keep`, `min_free_disk_gb`), names for people (`name`, `description`, `tags`, `group`,
`metadata`), `pull` and `prune_images`, and where files lie. A task's `solution` is covered where the agent
`oracle` carries it out, and nowhere else.

A folder counts by content: each file's path, bytes and whether its owner may execute it, each link's
target, each empty folder. In folders of agents and graders `__pycache__`, `*.pyc`, `.git` and `.lab`
don't count; a workspace counts as it is.

A folder that the agent can read (its `dir`, a task's `workspace`) and that holds the grader's folder, the
folder of a solution or the file with hidden answers is refused.
"""
