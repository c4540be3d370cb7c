"""Runs on the fake sandbox, for tests of the engine."""

import asyncio
import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from labrunner.experiment.resolved import Experiment
from labrunner.policy.pace import PACE, RunPace
from labrunner.runner.sitting.sitting import Live, RunEnd
from labrunner.runner.start import RunOptions, run_experiment
from labrunner.sandbox.door import AttemptFolders, Phase, PhaseEnd
from labrunner.sandbox.fake import FakeMaker
from tests.kit.builders import make_experiment, make_grader, make_policy, make_task, make_variant

COMMITTED = ("commits.jsonl", "benchmark/predictions.jsonl", "benchmark/scores.jsonl", "facts/trials.jsonl")

Pause = Callable[[Phase], float]


def make_sums(
    *, tasks: int = 4, variants: int = 2, replications: int = 3, concurrency: int = 4
) -> Experiment:
    return make_experiment(
        tasks=tuple(make_task(f"t{n}", grader=make_grader(retries=0)) for n in range(tasks)),
        variants=tuple(make_variant(f"v{n}") for n in range(variants)),
        replications=replications,
        policy=make_policy(max_concurrency=concurrency, fail_on_error=False),
    )


def is_pass(phase: Phase) -> bool:
    """A verdict that depends on the trial alone."""
    mark = hashlib.sha256(phase.env["AGENTLAB_TRIAL_ID"].encode()).digest()[0]
    return mark % 2 == 0


def answer(phase: Phase, folders: AttemptFolders) -> PhaseEnd:
    """An agent that works and a grader that judges, the same whenever they are asked."""
    trial = phase.env["AGENTLAB_TRIAL_ID"]
    if phase.name == "agent":
        (folders.workspace / "answer.txt").write_text(trial)
        return PhaseEnd(exit_status=0)
    prediction = {"kind": "text", "value": (folders.workspace / "answer.txt").read_text()}
    (folders.out / "benchmark_prediction.json").write_text(json.dumps(prediction))
    verdict = {"verdict": "pass" if is_pass(phase) else "fail"}
    (folders.out / "benchmark_score.json").write_text(json.dumps(verdict))
    return PhaseEnd(exit_status=0)


@dataclass
class Stage:
    """Where a run plays: folder, script, and what it is called."""

    runs_dir: Path
    script: Callable[[Phase, AttemptFolders], PhaseEnd] = answer
    pause: Pause | None = None
    run_id: str = "the-run"
    on_start: Callable[[Live], None] = field(default=lambda live: None)
    grace_s: float = 5.0
    pace: RunPace = PACE

    async def run(self, experiment: Experiment) -> RunEnd:
        async def script(phase: Phase, folders: AttemptFolders) -> PhaseEnd:
            if self.pause is not None:
                await asyncio.sleep(self.pause(phase))
            return self.script(phase, folders)

        options = RunOptions(
            runs_dir=self.runs_dir,
            secrets={},
            run_id=self.run_id,
            grace_s=self.grace_s,
            pace=self.pace,
            make=lambda kind: FakeMaker(script=script),
        )

        async def watch(live: Live) -> None:
            self.on_start(live)

        return await run_experiment(experiment, options, watch)


def committed_bytes(root: Path) -> dict[str, bytes]:
    return {name: (root / name).read_bytes() for name in COMMITTED}


def with_concurrency(experiment: Experiment, concurrency: int) -> Experiment:
    return replace(experiment, policy=replace(experiment.policy, max_concurrency=concurrency))
