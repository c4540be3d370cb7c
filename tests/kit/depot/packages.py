"""A package of npm on disk, and an agent's file that installs it: everything real, nothing fetched."""

import json
from pathlib import Path

PROGRAM = """#!/bin/sh
# Says what it was told, and does what its prompt says.
echo "VERSION $*"
printf %s "$MODEL_ADDRESS" > address.txt
sh -s
"""
AGENT = """
about: does what it is told
version: 1.0.0
install:
  npm: file:{place}/pkg-$version
  programs: {{obedient: node_modules/obedient/run.sh}}
dialects: [openai]
stdin: prompt
command: [obedient, --model=$model, $settings, --end]
env: {{MODEL_ADDRESS: $model_url, FIXED: "1"}}
files: {{.obedient/settings.json: '{{"url": "$model_url", "price": "$$1"}}'}}
settings:
  effort: {{args: [--effort, $value], values: [low, high]}}
  system_prompt: {{files: {{.obedient/rules.md: $value}}}}
"""
EXPERIMENT = """
name: named
tasks: [{{id: a, input: "cat $HOME/.obedient/settings.json > said.txt", target: x}}]
models:
  main: {{dialect: openai, base_url: "http://127.0.0.1:9/v1"}}
  other: {{dialect: gemini, key: GEMINI_API_KEY}}
agent: {{{agent}}}
{more}
grader: {{command: 'echo "{{\\"verdict\\": \\"pass\\"}}" > $$AGENTLAB_BENCHMARK_SCORE_PATH'}}
sandbox: {{kind: {kind}}}
keep: {{workspace: always}}
"""


def write_npm_agent(folder: Path, versions: tuple[str, ...] = ("1.0.0",)) -> Path:
    """Write releases of a package, and the file of the agent `obedient` that they are."""
    for version in versions:
        package = folder / f"pkg-{version}"
        package.mkdir(parents=True)
        (package / "package.json").write_text(json.dumps({"name": "obedient", "version": version}))
        (package / "run.sh").write_text(PROGRAM.replace("VERSION", version))
    file = folder / "obedient.yaml"
    file.write_text(AGENT.format(place=folder))
    return file


def write_named_experiment(folder: Path, agent: str, more: str = "", kind: str = "process") -> Path:
    """Write an experiment whose agent is used by name."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "experiment.yaml").write_text(EXPERIMENT.format(agent=agent, more=more, kind=kind))
    return folder
