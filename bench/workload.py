"""The experiments that benches run: small files, written where asked and loaded like anybody's.

The trials do as little as can be: the agent writes a file, the grader reads it and scores 1.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from labrunner.experiment.resolved import Experiment
from labrunner.experiment.resolving.load import load

AGENT: Final = 'echo 42 > answer.txt; echo "wrote answer.txt"'
GRADER: Final = (
    'read answer < answer.txt; [ "$answer" = 42 ] && score=1 || score=0; '
    'echo "{\\"score\\": $score}" > "$AGENTLAB_BENCHMARK_SCORE_PATH"'
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """How large an experiment is, and where its trials run."""

    tasks: int
    replications: int
    concurrency: int
    sandbox: str
    image: str | None = None
    trust: str = "standard"
    agent: str = AGENT
    workdir: str | None = None
    keep: str | None = None
    on_system_change: str | None = None


def write_experiment(folder: Path, shape: Shape) -> Path:
    """Write an experiment of that shape."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = (json.dumps({"id": f"task-{n:05}", "input": {"n": n}, "target": 42}) for n in range(shape.tasks))
    (folder / "tasks.jsonl").write_text("".join(f"{row}\n" for row in rows))
    asked = {"image": shape.image, "workdir": shape.workdir}
    experiment: dict[str, object] = {
        "schema": 1,
        "name": "bench",
        "tasks": "tasks.jsonl",
        "agent": {"command": ["/bin/sh", "-c", shape.agent.replace("$", "$$")]},
        "grader": {"command": ["/bin/sh", "-c", GRADER.replace("$", "$$")]},
        "sandbox": {"kind": shape.sandbox} | {name: value for name, value in asked.items() if value},
        "trust": shape.trust,
        "replications": shape.replications,
        "max_concurrency": shape.concurrency,
    }
    if shape.keep is not None:
        experiment["keep"] = {"workspace": shape.keep}
    if shape.on_system_change is not None:
        experiment["on_system_change"] = shape.on_system_change
    path = folder / "experiment.yaml"
    path.write_text(json.dumps(experiment))  # JSON is YAML
    return path


def make_experiment(folder: Path, shape: Shape) -> Experiment:
    """Write an experiment of that shape and load it."""
    return load(write_experiment(folder, shape))


def split_trials(trials: int, most_tasks: int = 1000) -> tuple[int, int]:
    """Tasks and replications that make about as many trials."""
    tasks = min(trials, most_tasks)
    return tasks, max(1, trials // tasks)
