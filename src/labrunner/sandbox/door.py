"""The door to where an attempt runs: what every sandbox promises, whatever it is made of.

One `Sandbox` is one attempt's. `run_agent` returns when the barrier holds: the agent and whatever it
started are gone. Nothing of the grader (files, command, environment) is handed over before that.
A phase that ends in any way of its own returns a `PhaseEnd`; a sandbox that can't do its part raises
`SandboxFailed` (or `SetupFailed`). Cancelling a call ends every process of the attempt before it returns.

What outlives a crashed runner is found as `Survivor`s, and adopted: the same calls go on, and start nothing.
"""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Literal, Protocol, runtime_checkable

from labrunner.experiment.resolved import Network, SandboxPlan
from labrunner.files.layering.layernote import LayerNote
from labrunner.sandbox.marks import Mark, RunMark


@dataclass(frozen=True, kw_only=True)  # without slots: each path is made once
class AttemptFolders:
    """The attempt's directory on this host. Everything below `root` belongs to one attempt.

    in/         task.json, prompt.txt, bindings.json, policy.json    agent: read
    workspace/                                                       agent, grader: write
    out/        result.json; later prediction and score              agent, grader: write
    state/      events.jsonl                                         agent: append
    grader/     empty until the barrier                              grader: read
    logs/       setup, agent and grader output                       neither
    scratch/    HOME and TMPDIR of each phase, thrown away           the phase alone
    ctl/        how far a container's wrapper is                     neither
    artifacts/  what `collect` copied out of the sandbox             neither
    """

    root: Path

    @cached_property
    def inputs(self) -> Path:
        """What the agent may know."""
        return self.root / "in"

    @cached_property
    def workspace(self) -> Path:
        """The working directory."""
        return self.root / "workspace"

    @cached_property
    def out(self) -> Path:
        """What agent and grader hand in."""
        return self.root / "out"

    @cached_property
    def state(self) -> Path:
        """The agent's own events."""
        return self.root / "state"

    @cached_property
    def grader(self) -> Path:
        """The grader's files, from the barrier on."""
        return self.root / "grader"

    @cached_property
    def logs(self) -> Path:
        """Standard output and error of each phase."""
        return self.root / "logs"

    @cached_property
    def scratch(self) -> Path:
        """Home and temporary folders of the phases."""
        return self.root / "scratch"

    @cached_property
    def ctl(self) -> Path:
        """What a container's wrapper tells; only containers have one."""
        return self.root / "ctl"

    @cached_property
    def agent_mount(self) -> Path:
        """Where the agent's own folder is mounted; empty on this side, and only containers have one."""
        return self.root / "agent"

    @cached_property
    def artifacts(self) -> Path:
        """What was copied out of the finished sandbox."""
        return self.root / "artifacts"

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


SEARCH_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


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
    """The interpreter below that of `lab`, where it is visible; else `python3`."""
    search_path: str = SEARCH_PATH
    """PATH inside, before an agent's or a grader's own `bin/` is put in front of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Demands:
    """What the phases of an attempt ask of its sandbox: known, and refused, before anything is spent."""

    agent_user: str | None = None
    grader_user: str | None = None
    networks: tuple[Network, ...] = ()
    """What setup, agent and grader may reach."""
    restart: bool = False
    """The barrier must be a new start of the sandbox: `trust: strict`."""
    any_user: bool = False
    """The agent's commands come one by one, each as whatever user is asked for then."""
    fresh_grader: bool = False
    """The grader wants a pristine sandbox over the same workspace."""
    leaves_work: bool = False
    """And there nothing of what an agent left in a folder of its image: it judges the patch of it."""
    brings_work: bool = False
    """What an agent left in a folder of its image lies in the attempt's folder, and is put in its place."""
    collect: tuple[str, ...] = ()
    """Paths that are copied out of the finished sandbox."""
    system_changes: bool = True
    """Whether somebody wants to know what was changed outside the attempt's folders."""
    refuses_changes: bool = False
    """An agent's changes there are held against it: it is not graded."""
    renews_changed: bool = False
    """Where an agent changed something there, or may have, the grader wants a pristine sandbox, too."""
    keeps_work: bool = False
    """What the agent left is wanted beyond its sandbox, also where it worked in a folder of its image."""
    place: Path | None = None
    """The folder below which attempts will lie; a probe is made where they will be."""

    @property
    def has_doors(self) -> bool:
        """Whether some phase reaches something through the gateway."""
        return any(network.has_doors for network in self.networks)

    @property
    def tells_setup_apart(self) -> bool:
        """Whether something follows from an agent's changes: those that may be setup's are the agent's."""
        return self.refuses_changes or self.renews_changed


NO_DEMANDS = Demands()


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxSpec:
    """Everything that a sandbox must know before its first phase. Holds nothing of the grader."""

    folders: AttemptFolders
    plan: SandboxPlan
    agent_dir: Path | None
    agent_also_at: str | None = None
    """Where else the agent's folder is seen, in sandboxes with a file system of their own."""
    mark: Mark | None = None
    """Run, trial, attempt and token; None in a probe, which nobody adopts."""
    demands: Demands = NO_DEMANDS


PhaseName = Literal["setup", "agent", "grader", "exec"]
ReachWay = Literal["planted", "bridge", "loopback"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reach:
    """How what runs in a sandbox comes to the doors of the gateway.

    planted    they stand on the loopback of its own network, where nothing else is
    bridge     at an address of the host, over a network that leads only there
    loopback   on the loopback of the host, which the sandbox shares
    """

    way: ReachWay
    host: str = "127.0.0.1"


class Doors(Protocol):
    """The doors of one phase: what it may reach, whatever its network is."""

    async def open(self, pid: int | None) -> None:
        """Stand where the phase is about to begin: nothing of it runs yet.

        `pid` is a process of its sandbox, where it has a network of its own. Called again for a sandbox that
        was started again or taken over. Raises SandboxFailed.
        """
        ...


@runtime_checkable
class HasDoors(Protocol):
    """A sandbox that opens the doors of its phases."""

    @property
    def reach(self) -> Reach:
        """How its phases come to them."""
        ...


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
    stream: str = ""  # name of its logs; empty for the phase's own
    may_repeat: bool = False
    """The caller may run it again if it fails: a sandbox that can wait for that, waits."""
    doors: Doors | None = None
    """To be opened before it begins."""
    halt: asyncio.Event | None = None
    """When this is set, it is ended, as by a limit: its `PhaseEnd` has no exit status."""
    afresh: bool = False
    """Of a grader: in a system that the agent never touched, where the sandbox has such a thing."""


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
    wrapper_killed: bool = False
    """The agent ended the sandbox's own first process: there is nothing left to grade in."""
    system_changes: tuple[str, ...] | None = None
    """Paths outside its folders that the agent changed; None where the sandbox can't tell."""
    facts: Mapping[str, int | str | bool] = field(default_factory=dict)
    """What was seen at the barrier: counts and words for people."""
    layer: LayerNote | None = None
    """What was taken of its work in a folder of its image, where somebody wants it."""


SurvivorPhase = Literal["not_begun", "setup", "agent", "barrier", "grader", "exited", "died"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Survivor:
    """A sandbox of a run whose runner is gone.

    not_begun   its plan never arrived whole: nothing was run, reap it
    setup       at its setup, alive
    agent       its agent runs
    barrier     its agent has ended, no grader has started. May be dead: it is started again for the grader
    grader      a grader has been started. Alive: its end is awaited. Dead: adoptable if graders may repeat
    exited      everything has been done: to be collected
    died        ended before its agent had: not adoptable, the slot is owed
    """

    token: str
    trial_id: str
    attempt: int
    phase: SurvivorPhase
    is_alive: bool
    grader_tries: int = 0
    """How often a grader has been started in it."""
    ids: tuple[str, ...] = ()
    """The sandbox's own names for what belongs to it."""
    ended: PhaseEnd | None = None
    """How its agent ended, where only the runner's own notes can tell: its folders are all that is left."""
    setup: PhaseEnd | None = None
    """The same of its setup, if it had one."""

    def is_adoptable(self, *, repeatable_grader: bool) -> bool:
        """Whether its attempt can be brought to its end without running the agent again."""
        if self.phase == "grader":
            return self.is_alive or repeatable_grader
        return self.phase in {"setup", "agent", "barrier", "exited"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One line of a preflight report."""

    name: str
    passed: bool
    message: str
    severity: Literal["error", "warning"] = "error"
    node: str = ""  # where there are several


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

    def fetch(self, path: str) -> AsyncGenerator[bytes, None]:
        """Stream a path of the finished sandbox as a tar archive; nothing at all when it is not there.

        Whoever stops reading early closes it.
        """
        ...


@runtime_checkable
class SandboxMaker(Protocol):
    """Makes sandboxes of one kind on this machine."""

    @property
    def outlives_runner(self) -> bool:
        """Whether its sandboxes go on without us: then notes about them must be durable before they act."""
        ...

    def guest_paths(self, folders: AttemptFolders, agent_dir: Path | None) -> GuestPaths:
        """Where things lie as seen from inside: commands and variables are made with these."""
        ...

    async def preflight(self, plan: SandboxPlan, demands: Demands = NO_DEMANDS) -> tuple[Check, ...]:
        """Prove with a real launch that sandboxes can be made here, within the plan's limits."""
        ...

    def find_excess(self, plan: SandboxPlan, setup: Phase | None, agent: Phase, grader: Phase) -> str | None:
        """Why the commands and variables of a trial could not be handed over; None when they can."""
        ...

    def open(self, spec: SandboxSpec) -> AbstractAsyncContextManager[Sandbox]:
        """Make a sandbox; leaving the context ends every process of it."""
        ...

    async def survivors(self, run: RunMark) -> tuple[Survivor, ...]:
        """Find what a crashed runner of this very run left. Raises when it can't be known now."""
        ...

    def adopt(self, spec: SandboxSpec, survivor: Survivor) -> AbstractAsyncContextManager[Sandbox]:
        """Take over a survivor; the sandbox's calls continue where it is."""
        ...

    async def reap(self, run: RunMark, keep: frozenset[str]) -> int:
        """Remove every sandbox of this very run but those of these tokens; how many there were."""
        ...

    async def release(self, token: str, *, keep: bool) -> None:
        """Remove what is left of an attempt whose result is durable, or keep it for a look."""
        ...

    async def close(self) -> None:
        """Let go of all but what was not released: that stays for the next owner. May be used again."""
        ...
