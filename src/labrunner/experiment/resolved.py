"""The resolved experiment: complete, frozen, the same whatever it was authored in.

Rules: every value is final but for built-in names (`$workspace`, `$agent_dir`, …), which stay in
commands and env values as `${name}` until a sandbox says where things lie; a literal dollar stays `$$`
until then. Paths to content (`Folder`) carry the digest of what they held when they were resolved.
Hidden things (`target`, `solution`, grader) stand in fields of their own and never inside `input`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, Literal

from labrunner.experiment.run_policy import Policy
from labrunner.policy.capacity import CONNECTIONS, RETRIES

NO_SANDBOX: Final = "none"
"""The kind of Python tasks that only ask a model; nothing can be run in it."""
Dialect = Literal["openai", "anthropic", "gemini"]
Runs = Literal["solution", "nothing"]
"""What an agent starts that has no command of its own."""
Population = Literal["tasks_like_these", "these_tasks"]
"""What a conclusion is about: tasks of the same kind as those that were run, or these very ones."""


LARGEST_SCORE: Final = 1e100
"""A score beyond this, in either direction, is no measurement; its square would be no number any more."""


class Order(StrEnum):
    """How slots are ordered; see `labrunner.experiment.schedule`."""

    BALANCED = "balanced"
    BY_VARIANT = "by_variant"
    BY_TASK = "by_task"
    SHUFFLED = "shuffled"


@dataclass(frozen=True, slots=True, kw_only=True)
class Folder:
    """A folder (or archive) of somebody's files, with the digest of its content."""

    path: str
    digest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Network:
    """What a phase may reach."""

    mode: Literal["none", "full", "allow"]
    hosts: tuple[str, ...] = ()
    """What is allowed: `host`, `host:port` or `*.host`."""
    models: tuple[str, ...] = ()
    """Names of entries of `models:` that are reached through the gateway, whatever the mode is."""

    @property
    def has_doors(self) -> bool:
        """Whether something is reached through the gateway."""
        return bool(self.models) or self.mode == "allow"


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelPrice:
    """USD for a million tokens, as an experiment says it."""

    input: float
    output: float
    cache_read: float | None = None
    """None: as any input."""
    cache_write: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelEntry:
    """One entry of `models:`: who answers, and how the gateway treats him."""

    name: str
    dialect: Dialect
    base_url: str | None = None
    """None: the provider's own address."""
    key: str | None = None
    """Name of the variable on the host that holds the key; None: no key is sent."""
    prices: Mapping[str, ModelPrice] = field(default_factory=dict)
    """By the name of the model that is asked for."""
    max_connections: int = CONNECTIONS
    max_retries: int = RETRIES
    server_tools: tuple[str, ...] = ()
    """What the provider may carry out itself."""
    script: Folder | None = None
    """A file of canned answers: the gateway answers by itself, and nobody else is asked."""

    @property
    def variable(self) -> str:
        """How the names of the variables begin by which an agent finds it: `_URL` and `_KEY` follow."""
        return "LAB_MODEL_" + "".join(each if each.isalnum() else "_" for each in self.name).upper()


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentLimits:
    """What one attempt's agent may use of its models; None for no limit."""

    cost_usd: float | None = None
    tokens: int | None = None
    requests: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """A command before the agent. No command: no setup."""

    command: tuple[str, ...] = ()
    timeout_s: float = 600.0
    network: Network = Network(mode="none")
    user: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedAgent:
    """Which agent it is, for one that is known by name: what its command was made of."""

    name: str
    version: str | None = None
    model: str | None = None
    """`ENTRY/MODEL`."""
    settings: Mapping[str, str] = field(default_factory=dict)
    """`effort`, `turns`, `system_prompt`: those that were asked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Agent:
    """How the agent is started."""

    command: tuple[str, ...]
    dir: Folder | None
    stdin: Literal["none", "prompt"]
    env: Mapping[str, str]
    secrets: tuple[str, ...]
    user: str | None
    network: Network
    timeout_s: float
    error_exit_codes: Mapping[int, str]
    require_result: bool
    limits: AgentLimits = AgentLimits()
    named: NamedAgent | None = None
    """Set for one that is known by name and is told its model."""
    exit_tells: bool = True
    """Whether exit status 0 says that it got through."""
    runs: Runs | None = None
    """What it starts in the place of a command of its own."""

    @property
    def runs_solution(self) -> bool:
        """Whether it is the oracle: it carries out each task's own solution."""
        return self.runs == "solution"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredMetric:
    """What is declared of a score: its name, its direction, and the bounds that it can't leave."""

    name: str
    better: Literal["higher", "lower"] = "higher"
    min: float | None = None
    max: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Grader:
    """How the grader is started, after the barrier."""

    command: tuple[str, ...]
    dir: Folder | None
    env: Mapping[str, str]
    secrets: tuple[str, ...]
    user: str | None
    network: Network
    timeout_s: float
    retries: int
    pass_at: float
    where: Literal["same", "fresh", "pristine"]
    repeatable: bool
    metric: DeclaredMetric | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxPlan:
    """Where attempts of a variant run, and within which limits."""

    kind: str
    image: str | None
    build: Folder | None
    pull: Literal["preflight", "lazy", "never"]
    prune_images: bool
    workdir: str | None
    cpus: float
    memory_mb: int
    pids: int
    disk_mb: int
    read_only: bool
    tmpfs: Mapping[str, str]
    limits: Literal["enforced", "best_effort"]
    asked: tuple[str, ...]
    """Names of the limits that the author wrote down: these must be enforced; defaults where the host can."""
    build_timeout_s: float | None = None
    """For building or fetching the image; None: as long as something is told of it."""

    @property
    def is_none(self) -> bool:
        """Whether there is no sandbox at all."""
        return self.kind == NO_SANDBOX


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """A task written in Python: what makes it again, and what it is made of."""

    task: str
    file: Folder | None
    """Where its function stands, with the digest of its code; None for one that no file's function made."""
    arguments: Mapping[str, Any]  # any JSON: what the function was called with
    is_repeatable: bool
    """Whether the function can be called again."""
    in_process: bool
    """Whether solvers or scorers run in the coordinator's own process; if not, both are commands."""
    model: str | None
    base_url: str | None
    config: Mapping[str, Any]  # any JSON: settings that shape the model's answers
    limits: Mapping[str, Any]  # numbers, by name
    steps: tuple[Any, ...]  # any JSON: each solver's name and arguments
    scorers: tuple[Any, ...]  # any JSON: each scorer's name, arguments and metrics
    reducer: str
    """How the scores of a sample's epochs become one; several ways are separated by commas."""
    modules: Mapping[str, str] = field(default_factory=dict)
    """Modules of its own project that it is made of, besides its file: digests of their code, by name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """One configuration under test, complete."""

    id: str
    bindings: Mapping[str, Any]  # any JSON: the author's own
    agent: Agent
    setup: Setup
    sandbox: SandboxPlan
    digest: str
    program: Program | None = None
    """Set for a task written in Python."""
    models: tuple[ModelEntry, ...] = ()
    """Those that its agent's network names, in that order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkspaceFile:
    """A file put into the workspace: content given in place, or copied from `source`."""

    path: str
    content: str | None
    source: Folder | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Resources:
    """A task's own limits; None leaves the variant's."""

    cpus: float | None = None
    memory_mb: int | None = None
    pids: int | None = None
    disk_mb: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Solution:
    """How a task is solved: what the oracle runs, and nobody else sees."""

    command: tuple[str, ...] = ()
    dir: str | None = None
    """A folder, which is the oracle's own; with the digest of what it held."""
    digest: str | None = None
    env: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskAgent:
    """What a task decides about its agent; None leaves the variant's."""

    user: str | None = None
    network: Network | None = None
    """What it may reach beside its models."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskSpec:
    """One problem to solve. `grader`, `setup` are complete and already merged with the experiment's."""

    id: str
    input: Any  # any JSON: the author's own
    prompt: str | None
    target: Any  # any JSON: the author's own; None when absent
    has_target: bool
    solution: Solution | None
    """For the oracle alone."""
    image: str | None
    workdir: str | None
    workspace: Folder | None
    files: tuple[WorkspaceFile, ...]
    setup: Setup | None
    """The task's own setup, instead of the variant's; None leaves the variant's."""
    timeout_s: float | None
    grader: Grader
    group: str | None
    tags: tuple[str, ...]
    env: Mapping[str, str]
    metadata: Mapping[str, Any]  # any JSON: the author's own
    resources: Resources
    digest: str
    build: Folder | None = None
    """What its own image is built from, instead of the variant's."""
    build_timeout_s: float | None = None
    agent: TaskAgent | None = None
    collect: tuple[str, ...] = ()
    """Besides what the experiment collects."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Experiment:
    """What is asked: tasks x variants x replications, and how a run of it is carried out."""

    name: str
    description: str
    tags: tuple[str, ...]
    source: str
    """The file it came from, for messages and for provenance."""
    tasks: tuple[TaskSpec, ...]
    variants: tuple[Variant, ...]
    trust: Literal["standard", "strict"]
    on_system_change: Literal["afresh", "flag", "refuse", "ignore"]
    collect: tuple[str, ...]
    replications: int
    order: Order
    seed: int
    grade_on_agent_failure: bool
    metadata: Mapping[str, Any]  # any JSON: the author's own
    policy: Policy
    digest: str
    """Digest of what is measured: everything but policy, names for people, and where files lie."""
    population: Population = "tasks_like_these"
    """What conclusions and gates speak of."""
    retry_margin: float = 0.02
    """By how much of its scale retries may have moved a mean."""

    @property
    def models(self) -> tuple[ModelEntry, ...]:
        """Entries of `models:` that any variant uses, each once."""
        used = (entry for variant in self.variants for entry in variant.models)
        return tuple({entry.name: entry for entry in used}.values())

    @property
    def secrets(self) -> tuple[str, ...]:
        """Names of all secrets that agents and graders ask for."""
        agents = (name for variant in self.variants for name in variant.agent.secrets)
        graders = (name for task in self.tasks for name in task.grader.secrets)
        return tuple(dict.fromkeys([*agents, *graders]))

    @property
    def judges_changed_systems(self) -> bool:
        """Whether a grader may run in a system that the agent changed."""
        return self.trust != "strict" and self.on_system_change in {"flag", "ignore"}
