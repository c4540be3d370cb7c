"""The experiment that crash tests carry out: trials of milliseconds, with the same results whenever asked."""

import asyncio
import hashlib
import json
from dataclasses import dataclass
from pathlib import Path

from labrunner.sandbox.door import AttemptFolders, Phase, PhaseEnd

RUN_ID = "the-run"


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """How large the experiment is."""

    tasks: int = 5
    variants: int = 2
    replications: int = 2
    concurrency: int = 8
    fail_on_error: str = "false"
    retry_on_error: int = 1

    @property
    def planned(self) -> int:
        return self.tasks * self.variants * self.replications


def write_scenario(folder: Path, shape: Shape) -> Path:
    """Write the experiment's file; its commands are never run, `play` stands in for them."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = [{"id": f"t{n}", "input": n, "target": n} for n in range(shape.tasks)]
    (folder / "tasks.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    experiment = {
        "schema": 1,
        "name": "crash",
        "tasks": "tasks.jsonl",
        "agent": {"command": ["true"]},
        "grader": {"command": ["true"], "retries": 0},
        "sandbox": {"kind": "process"},
        "variants": [{"id": f"v{n}", "bindings": {"n": n}} for n in range(shape.variants)],
        "replications": shape.replications,
        "max_concurrency": shape.concurrency,
        "fail_on_error": json.loads(shape.fail_on_error),
        "retry_on_error": shape.retry_on_error,
        "min_free_disk_gb": 0,
        "keep": {"workspace": "never"},
    }
    path = folder / "experiment.yaml"
    path.write_text(json.dumps(experiment))  # JSON is YAML
    return path


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """What a trial does: decided by its name alone."""

    name: str

    def dice(self, number: int) -> int:
        return hashlib.sha256(self.name.encode()).digest()[number]

    @property
    def seconds(self) -> float:
        return (1 + self.dice(0) % 50) / 1000

    @property
    def passes(self) -> bool:
        return self.dice(1) % 2 == 0

    @property
    def failing_attempts(self) -> int:
        """Most trials are judged at once, some on their second attempt, a few never."""
        return 2 if self.dice(2) < 8 else 1 if self.dice(2) < 32 else 0


async def play(phase: Phase, folders: AttemptFolders, failing: frozenset[str] | None = None) -> PhaseEnd:
    """Act as agent or as grader; `failing` names trials that have no judgement, instead of the dice."""
    trial, attempt = Trial(name=phase.env["AGENTLAB_TRIAL_ID"]), int(folders.root.name)
    if phase.name == "agent":
        await asyncio.sleep(trial.seconds)
        (folders.workspace / "answer.txt").write_text(trial.name)
        (folders.logs / "agent.log").write_text(f"{trial.name}, attempt {attempt}: thinking …\n" * 3)
        return PhaseEnd(exit_status=0, seconds=trial.seconds)
    if attempt <= trial.failing_attempts if failing is None else trial.name in failing:
        return PhaseEnd(exit_status=3)
    answer = (folders.workspace / "answer.txt").read_text()
    prediction = {"kind": "text", "value": f"ré\u2028ponse {answer} " * (1 + trial.dice(3) % 20)}
    score = {
        "verdict": "pass" if trial.passes else "fail",
        "primary_metric_name": "part",
        "primary_metric_value": trial.dice(4) / 7,
        "metrics": {"whole": 1, "part": 0.1 + trial.dice(5)},
    }
    (folders.out / "benchmark_prediction.json").write_text(json.dumps(prediction))
    (folders.out / "benchmark_score.json").write_text(json.dumps(score))
    return PhaseEnd(exit_status=0, seconds=0.0)
