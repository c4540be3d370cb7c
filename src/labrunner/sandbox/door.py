"""The door to where an attempt runs: what every sandbox promises, whatever it is made of.

One `Sandbox` is one attempt's. `run_agent` returns when the barrier holds: the agent and whatever it
started are gone. Nothing of the grader (files, command, environment) is handed over before that.
A phase that ends in any way of its own returns a `PhaseEnd`; a sandbox that can't do its part raises
`SandboxFailed` (or `SetupFailed`). Cancelling a call ends every process of the attempt before it returns.
"""

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol

from labrunner.experiment.model import Network, SandboxPlan


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptFolders:
    """The attempt's directory on this host. Everything below `root` belongs to one attempt.

    in/         task.json, prompt.txt, bindings.json, policy.json    agent: read
    workspace/                                                       agent, grader: write
    out/        result.json; later prediction and score              agent, grader: write
    state/      events.jsonl                                         agent: append
    grader/     empty until the barrier                              grader: read
    logs/       setup, agent and grader output                       neither
    scratch/    HOME and TMPDIR of each phase, thrown away           the phase alone
    """

    root: Path

    @property
    def inputs(self) -> Path:
        """What the agent may know."""
        return self.root / "in"

    @property
    def workspace(self) -> Path:
        """The working directory."""
        return self.root / "workspace"

    @property
    def out(self) -> Path:
        """What agent and grader hand in."""
        return self.root / "out"

    @property
    def state(self) -> Path:
        """The agent's own events."""
        return self.root / "state"

    @property
    def grader(self) -> Path:
        """The grader's files, from the barrier on."""
        return self.root / "grader"

    @property
    def logs(self) -> Path:
        """Standard output and error of each phase."""
        return self.root / "logs"

    @property
    def scratch(self) -> Path:
        """Home and temporary folders of the phases."""
        return self.root / "scratch"

    def all(self) -> tuple[Path, ...]:
        """Every folder that must exist before a sandbox is opened."""
        return (
            self.inputs,
            self.workspace,
            self.out,
            self.state,
            self.grader,
            self.logs,
            self.scratch,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class GuestPaths:
    """Where the attempt's folders lie as the processes inside see them."""

    inputs: str
    workspace: str
    out: str
    state: str
    agent: str
    grader: str
    python: str
    """The interpreter that runs `lab`, where it is visible; else `python3`."""
    search_path: str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    """PATH inside, before an agent's or a grader's own `bin/` is put in front of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxSpec:
    """Everything that a sandbox must know before its first phase. Holds nothing of the grader."""

    folders: AttemptFolders
    plan: SandboxPlan
    agent_dir: Path | None
    label: str
    """Run, trial, attempt and token, for names of control groups and containers."""


PhaseName = Literal["setup", "agent", "grader"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Phase:
    """One command inside a sandbox. Output goes to `logs/<name>.stdout` and `logs/<name>.stderr`."""

    name: PhaseName
    argv: tuple[str, ...]
    env: Mapping[str, str]
    """Complete but for PWD, and for HOME and TMPDIR, which the sandbox sets to private, empty folders."""
    timeout_s: float
    network: Network
    stdin: Path | None = None
    """A host file fed to standard input; None closes it."""
    user: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseEnd:
    """How a phase ended."""

    exit_status: int | None
    """128 + n when a signal ended it; None when we did (time, disk)."""
    timed_out: bool = False
    oom_killed: bool = False
    over_disk: bool = False
    seconds: float = 0.0
    usage: Mapping[str, float] = field(default_factory=dict)
    """What was measured: `cpu_s`, `max_rss_mb`, where the sandbox can tell."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentRun:
    """Setup and agent ended, and the barrier holds."""

    setup: PhaseEnd | None
    agent: PhaseEnd | None
    """None when setup failed and the agent was not started."""
    barrier_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One line of a preflight report."""

    name: str
    passed: bool
    message: str
    severity: Literal["error", "warning"] = "error"


class Sandbox(Protocol):
    """One attempt's sandbox."""

    @property
    def barrier(self) -> str:
        """How this sandbox holds the barrier; a word for the trial's row."""
        ...

    @property
    def limits(self) -> Mapping[str, float | int | str | bool | None]:
        """Limits as enforced, by name; None where one is not."""
        ...

    async def run_agent(self, setup: Phase | None, agent: Phase) -> AgentRun:
        """Run setup and agent; return when nothing that they started is left."""
        ...

    async def run_grader(self, grader: Phase) -> PhaseEnd:
        """Run the grader over the same workspace, with `folders.grader` now visible, read-only.

        May be called again: each call starts behind a barrier of its own.
        """
        ...


class SandboxMaker(Protocol):
    """Makes sandboxes of one kind on this machine."""

    def guest_paths(self, folders: AttemptFolders, agent_dir: Path | None) -> GuestPaths:
        """Where things lie as seen from inside: commands and variables are made with these."""
        ...

    async def preflight(self, plan: SandboxPlan) -> tuple[Check, ...]:
        """Prove with a real launch that sandboxes can be made here, within the plan's limits."""
        ...

    def open(self, spec: SandboxSpec) -> AbstractAsyncContextManager[Sandbox]:
        """Make a sandbox; leaving the context ends every process of it."""
        ...
