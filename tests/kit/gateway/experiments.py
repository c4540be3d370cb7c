"""Experiments whose agents ask a model through the gateway, and runs of them."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from labrunner.experiment.resolved import AgentLimits, Experiment, ModelEntry, ModelPrice, Network
from labrunner.experiment.run_policy import Keep, KeepPolicy
from labrunner.gateway.recording.calljournal import read_calls
from labrunner.records.facts.model_call import CallRow
from labrunner.records.rows import TrialRow
from labrunner.runner.sitting.sitting import Live, RunEnd
from labrunner.runner.start import RunOptions, run_experiment
from labrunner.store.layout import RunPaths
from tests.kit.builders import (
    make_agent,
    make_experiment,
    make_grader,
    make_policy,
    make_sandbox,
    make_task,
    make_variant,
)
from tests.kit.gateway.provider import KEY

KEY_NAME = "PROVIDER_KEY"
PRICES = {"gpt-4o": ModelPrice(input=1.0, output=10.0)}
"""An answer of the kit, 120 in and 30 out, costs 0.00042 USD."""
CLIENT = """
import json, os, sys, urllib.error, urllib.request

def ask(**more):
    body = {"model": "gpt-4o", "messages": [], "max_tokens": 5, **more}
    request = urllib.request.Request(
        os.environ["OPENAI_BASE_URL"] + "/chat/completions",
        json.dumps(body).encode(),
        {"authorization": "Bearer " + os.environ["OPENAI_API_KEY"], "content-type": "application/json"},
    )
    try:
        return urllib.request.urlopen(request, timeout=60).read().decode()
    except urllib.error.HTTPError as error:
        return str(error.code)
"""
JUDGE = """
import json, os, pathlib
answer = pathlib.Path(os.environ["AGENTLAB_WORKSPACE"], "answer.txt")
verdict = "pass" if answer.exists() and answer.read_text() else "fail"
pathlib.Path(os.environ["AGENTLAB_BENCHMARK_SCORE_PATH"]).write_text(json.dumps({"verdict": verdict}))
"""
ASK_ONCE = (
    CLIENT
    + """
open("answer.txt", "w").write(ask())
"""
)


@dataclass(frozen=True, kw_only=True)
class Setting:
    """What an experiment with a model is made of."""

    kind: str
    url: str
    agent: str = ASK_ONCE
    grader: str = JUDGE
    limits: AgentLimits = field(default_factory=AgentLimits)
    tasks: int = 1
    policy: dict[str, Any] = field(default_factory=dict)
    entry: dict[str, Any] = field(default_factory=dict)
    plan: dict[str, Any] = field(default_factory=dict)
    timeout_s: float = 60.0
    user: str | None = None
    hosts: tuple[str, ...] = ()

    def make(self, *, policy_keep: Keep = "failed", **changes: Any) -> Experiment:
        entry = ModelEntry(
            **{"name": "main", "dialect": "openai", "base_url": f"{self.url}/v1", "key": KEY_NAME}
            | {"prices": PRICES}
            | self.entry
        )
        agent = make_agent(
            command=("${python}", "-B", "-c", self.agent.replace("$", "$$")),
            network=Network(mode="allow" if self.hosts else "none", hosts=self.hosts, models=("main",)),
            limits=self.limits,
            timeout_s=self.timeout_s,
            user=self.user,
        )
        grader = make_grader(command=("${python}", "-B", "-c", self.grader.replace("$", "$$")))
        variant = make_variant(
            "v", agent=agent, sandbox=make_sandbox(kind=self.kind, **self.plan), models=(entry,)
        )
        return make_experiment(
            tasks=tuple(make_task(f"t{n}", grader=grader) for n in range(self.tasks)),
            variants=(variant,),
            replications=1,
            policy=make_policy(
                **{"fail_on_error": False, "keep": KeepPolicy(workspace=policy_keep, logs="always")}
                | self.policy
            ),
            **changes,
        )


@dataclass(frozen=True, kw_only=True)
class Ran:
    """A run that has ended."""

    end: RunEnd

    @property
    def paths(self) -> RunPaths:
        return self.end.paths

    def attempt(self, task: int = 0, number: int = 1) -> Path:
        [folder] = self.paths.trial_folders.glob(f"t{task}.*/{number}")
        return folder

    def trials(self) -> list[TrialRow]:
        lines = self.paths.trials.read_bytes().splitlines()
        return [msgspec.json.decode(line, type=TrialRow) for line in lines]

    def calls(self, task: int = 0) -> list[CallRow]:
        return list(read_calls(self.attempt(task)))


async def run(experiment: Experiment, runs_dir: Path, **changes: Any) -> Ran:
    async def watch(live: Live) -> None:
        del live

    given = {"secrets": {KEY_NAME: KEY}, "run_id": "the-run", **changes}
    options = RunOptions(runs_dir=runs_dir, **given)
    return Ran(end=await run_experiment(experiment, options, watch))
