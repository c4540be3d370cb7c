"""One small attempt in a container, from its agent to its grader: what preflight proves in one go.

It shows that the image has a shell and the tools that the wrapper needs, that its users exist and can be
become, and that folders reach the engine's host: the grader's command is a file that is made after the start,
and without it no grader runs. Where phases have doors, that these can be opened for a container.
"""

import os
import socket
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from labrunner.errors import AttemptFailed, SandboxFailed
from labrunner.experiment.resolved import Network, SandboxPlan
from labrunner.files.scraps import PROBE, scrap_folder
from labrunner.sandbox.docker.attempt.sandbox import DockerSandbox
from labrunner.sandbox.door import (
    SEARCH_PATH,
    AgentRun,
    AttemptFolders,
    Demands,
    HasDoors,
    Phase,
    PhaseEnd,
    PhaseName,
    Reach,
    SandboxMaker,
    SandboxSpec,
)
from labrunner.sandbox.paths import AGENTLAB

PROBE_S: Final = 20.0
LATE: Final = "late"
OFF: Final = Network(mode="none")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeOutcome:
    """What came of a probe."""

    problem: str | None = None
    changes_s: float = 0.0
    """How long it took to find out what had been changed in the container's system."""


@dataclass(frozen=True, slots=True)
class UnservedDoors:
    """Doors that nobody serves: it is only tried whether they could stand where a phase comes to."""

    reach: Reach

    async def open(self, pid: int | None) -> None:
        """See whether we may join the network of a container's process, or listen. Raises SandboxFailed."""
        if self.reach.way == "bridge":
            self._listen()
            return
        try:
            os.close(os.open(f"/proc/{pid}/ns/net", os.O_RDONLY | os.O_CLOEXEC))
        except OSError as error:
            told = f"this user can't let models and hosts into a container's network ({error.strerror})"
            raise SandboxFailed("network", f"{told}: run lab as root, or use bubblewrap") from error

    def _listen(self) -> None:
        try:
            socket.create_server((self.reach.host, 0)).close()
        except OSError as error:
            told = f"the engine's network has {self.reach.host} for its host, where lab can't listen"
            hint = "run lab where the engine runs, or use bubblewrap"
            raise SandboxFailed("network", f"{told} ({error.strerror}): {hint}") from error


async def probe(maker: SandboxMaker, plan: SandboxPlan, demands: Demands) -> ProbeOutcome:
    """Carry out one small attempt and look at what it left."""
    try:
        with scrap_folder(PROBE, find_place(demands)) as place:
            return await _attempt(maker, plan, demands, AttemptFolders(root=place / "attempt"))
    except (AttemptFailed, OSError) as error:
        return ProbeOutcome(problem=str(error))


def find_place(demands: Demands) -> Path | None:
    """The nearest folder that is there to where attempts will lie."""
    if demands.place is None:
        return None
    folders = (demands.place, *demands.place.parents)
    return next((folder for folder in folders if folder.is_dir()), None)


async def _attempt(
    maker: SandboxMaker, plan: SandboxPlan, demands: Demands, folders: AttemptFolders
) -> ProbeOutcome:
    for folder in folders.all():
        folder.mkdir(parents=True)
    spec = SandboxSpec(folders=folders, plan=plan, agent_dir=None, demands=demands)
    asked = demands.networks or (OFF, OFF, OFF)
    _, agent_network, grader_network = (OFF if network.has_doors else network for network in asked)
    agent = _phase("agent", f"echo here > {AGENTLAB}/workspace/here", demands.agent_user, agent_network)
    seen = f"cat {AGENTLAB}/grader/{LATE} > {AGENTLAB}/out/benchmark_score.json"
    grader = _phase("grader", seen, demands.grader_user, grader_network)
    async with maker.open(spec) as sandbox:
        if demands.has_doors and isinstance(sandbox, HasDoors):
            agent = replace(agent, doors=UnservedDoors(sandbox.reach))
        run = await sandbox.run_agent(None, agent)
        changes_s = sandbox.stage.changes_s if isinstance(sandbox, DockerSandbox) else 0.0
        (folders.grader / LATE).write_text("late")
        end = await sandbox.run_grader(grader)
    return ProbeOutcome(problem=_judge(folders, run, end), changes_s=changes_s)


def _phase(name: PhaseName, script: str, user: str | None, network: Network) -> Phase:
    return Phase(
        name=name,
        argv=("/bin/sh", "-c", script),
        env={"PATH": SEARCH_PATH},
        timeout_s=PROBE_S,
        network=network,
        user=user,
    )


def _judge(folders: AttemptFolders, run: AgentRun, end: PhaseEnd) -> str | None:
    if run.agent is None or run.agent.exit_status != 0:
        said = _read(folders.logs / "agent.stderr")
        return f"a test command ended with {run.agent and run.agent.exit_status} instead of 0: {said}"
    if not (folders.workspace / "here").is_file():
        return f"what a container writes does not reach {folders.root}: the engine's host has other folders"
    if end.timed_out or not (folders.out / "benchmark_score.json").is_file():
        told = f"a file made in {folders.root} after a container's start does not appear in it"
        return f"{told}: the engine's host has other folders, or copies of them"
    if end.exit_status != 0:
        said = _read(folders.logs / "grader.stderr")
        return f"a test grader ended with {end.exit_status} instead of 0: {said}"
    return None


def _read(path: Path) -> str:
    try:
        return path.read_text(errors="replace").strip()[:500]
    except OSError as error:
        return f"(its log can't be read: {error})"
