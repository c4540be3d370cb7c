"""Whole trials in containers: an agent, a grader, and what becomes of them."""

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from labrunner.executor.local import LocalExecutor
from labrunner.experiment.resolved import Experiment, Folder
from labrunner.experiment.schedule import Slot
from labrunner.records.completion import Completion
from labrunner.records.encoding.ids import make_token, make_trial_id
from labrunner.runner.leftovers.leavings import SANDBOX_ONLY
from labrunner.sandbox.docker.maker import DockerMaker
from labrunner.sandbox.door import AttemptFolders
from labrunner.trial.assignment import Assignment, TrialContext
from tests.kit.builders import (
    make_agent,
    make_experiment,
    make_grader,
    make_sandbox,
    make_task,
    make_variant,
)
from tests.kit.trial.attempting import HeardNotes

TRIAL = make_trial_id("baseline", "t1", 0)
SCORE = "/agentlab/out/benchmark_score.json"
FAIL = f"""echo '{{"verdict": "fail"}}' > {SCORE}"""
"""A grader that fails whatever it finds."""
PASS = f"""echo '{{"verdict": "pass"}}' > {SCORE}"""


def shell(script: str) -> tuple[str, ...]:
    """A command; dollar signs in it are the shell's."""
    return ("/bin/sh", "-c", script.replace("$", "$$"))


def python(script: str) -> tuple[str, ...]:
    return ("python3", "-I", "-c", script.replace("$", "$$"))


async def by_list() -> DockerMaker:
    """Makes containers on an engine whose own folders do not tell."""
    maker = DockerMaker()
    maker._facts = replace(await maker.engine.facts(), remaps_users=True)
    return maker


@dataclass(kw_only=True)
class Trial:
    """One trial; change what it should do, then carry it out."""

    root: Path
    image: str
    agent: tuple[str, ...] = shell(":")
    grader: tuple[str, ...] = shell(FAIL)
    agent_changes: dict[str, Any] = field(default_factory=dict)
    grader_changes: dict[str, Any] = field(default_factory=dict)
    sandbox: dict[str, Any] = field(default_factory=dict)
    task: dict[str, Any] = field(default_factory=dict)
    experiment_changes: dict[str, Any] = field(default_factory=dict)
    secrets: dict[str, str] = field(default_factory=dict)
    maker: DockerMaker | None = None
    expects_container: bool = True

    @property
    def folders(self) -> AttemptFolders:
        return AttemptFolders(root=self.root / "trials" / TRIAL / "1")

    def hide(self, **files: str) -> None:
        """Give the grader files of its own."""
        hidden = self.root / "hidden"
        hidden.mkdir(parents=True, exist_ok=True)
        for name, content in files.items():
            (hidden / name.replace("__", ".")).write_text(content)
        self.grader_changes["dir"] = Folder(path=str(hidden), digest="sha256:0")

    def experiment(self) -> Experiment:
        grader = make_grader(command=self.grader, **{"timeout_s": 20, **self.grader_changes})
        sandbox = make_sandbox(**{"kind": "docker", "image": self.image, "memory_mb": 256, **self.sandbox})
        agent = make_agent(command=self.agent, **{"timeout_s": 20, **self.agent_changes})
        return make_experiment(
            tasks=(make_task(grader=grader, **self.task),),
            variants=(make_variant(agent=agent, sandbox=sandbox),),
            **self.experiment_changes,
        )

    async def carry_out(self) -> Completion:
        (self.root / "trials").mkdir(parents=True, exist_ok=True)
        context = TrialContext(
            experiment=self.experiment(),
            run_id="the-run",
            trials_dir=self.root / "trials",
            host="here",
            secrets=self.secrets,
        )
        slot = Slot(schedule_idx=0, variant_idx=0, task_idx=0, repl_idx=0)
        assignment = Assignment(token=make_token(), slot=slot, trial_id=TRIAL, attempt=1)
        executor = LocalExecutor(context, lambda kind: self.maker or DockerMaker())
        try:
            completion = await executor.carry_out(assignment, HeardNotes())
            if self.expects_container:
                assert await executor.survivors(), "the container must stay until the result is durable"
                await executor.reap(frozenset())
            await executor.release(assignment, SANDBOX_ONLY)
        finally:
            await executor.close()
        return completion

    def log(self, name: str) -> str:
        path = self.folders.logs / name
        return path.read_text(errors="replace") if path.exists() else ""
