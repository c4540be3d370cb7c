"""An experiment file as its author writes it: every field, its default, and what it means.

Rules: strict types, unknown fields refused. The text under each field is the reference page's
(`labrunner.experiment.authoring.experiment_page` reads it from this source, so that a run does not pay for
it). Nothing is looked up or filled in here: that is `labrunner.experiment.resolving.resolution`'s.
"""

# ruff: noqa: RUF012 - pydantic copies defaults

from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BeforeValidator, Discriminator, Field, Tag, model_validator

from labrunner.experiment.authoring.model_part import ModelPart
from labrunner.experiment.authoring.part import Count, Part, Seconds, Text
from labrunner.experiment.authoring.values import (
    AgentNetworkChoice,
    Command,
    Env,
    ExitCodes,
    FailOnError,
    GuestPath,
    HomeFiles,
    Id,
    JsonMap,
    KindName,
    Limits,
    MaxConcurrency,
    NetworkChoice,
    SchemaVersion,
    Shown,
    Tmpfs,
)
from labrunner.experiment.resolved import Network
from labrunner.experiment.run_policy import LOCAL

KeepChoice: TypeAlias = Literal["failed", "always", "never"]
NO_NETWORK = Network(mode="none")


class SetupPart(Part):
    """A command that runs in the sandbox before the agent, in the same workspace."""

    command: Command = ()
    """What prepares the workspace. Empty: nothing. A failure is an error with cause `setup`, not a grade."""
    timeout_s: Seconds = 600.0
    """After so many seconds the setup has failed."""
    network: NetworkChoice = NO_NETWORK
    """What the setup may reach."""
    user: Text | None = None
    """User inside the image; null is the image's own."""


class AgentPart(Part):
    """How the agent is started. What it does and how it ends is what is measured."""

    use: Text | None = None
    """An agent that is known by name, or `./file.yaml`: its fields hold where none are written here. `$name`
    puts bindings in."""
    version: Text | None = None
    """Which release of the agent that `use` names; null is the one that its file names."""
    model: Text | None = None
    """With `use`: the model that the agent works with, as `ENTRY/MODEL`: an entry of `models`, and what it is
    asked for. The agent reaches this entry, and nothing else where `network` is not written."""
    effort: Text | None = None
    """With `use`: how much the model is to think, in the agent's own words."""
    turns: Count | None = None
    """With `use`: after so many turns the agent stops by itself."""
    system_prompt: Text | None = None
    """With `use`: instructions beside, or instead of, the agent's own."""
    args: list[str] = []
    """With `use`: further arguments of the agent's program."""
    files: HomeFiles = {}
    """With `use`: files in the agent's home, such as its settings. `$name` works in text."""
    command: Command = ()
    """What starts the agent; required. `$name` puts bindings and built-in names in."""
    dir: Text | None = None
    """Folder with the agent's own files, visible read-only as `$agent_dir`; its `bin/` is first on PATH."""
    stdin: Literal["none", "prompt"] = "none"
    """`prompt` feeds the task's text to the agent's standard input; `none` closes it."""
    env: Env = {}
    """Variables for the agent. `$name` works in values; null takes one of a base away."""
    secrets: list[Text] = []
    """Names of variables whose values come from lab's own environment or from `--env-file`."""
    user: Text | None = None
    """User inside the image; null is the image's own."""
    network: AgentNetworkChoice = NO_NETWORK
    """What the agent may reach: nothing, everything, or entries of `models` and hosts through the gateway,
    and nothing else. `allow: full` beside `models` leaves the network open."""
    limits: Limits = {}
    """What one attempt may use of its models: US dollars, tokens, requests. Reached, the agent is ended, and
    what it left is graded. null takes one of a base away."""
    timeout_s: Seconds = 3600.0
    """After so many seconds the agent is ended, and what it left is graded."""
    error_exit_codes: ExitCodes = {75: "provider"}
    """Exit statuses by which the agent says that the trouble is not its own: the attempt is an error with
    this cause (`provider`, `sandbox`, `setup` or `solver`), not a grade. null takes one of a base away."""
    require_result: bool = False
    """Whether an agent that wrote no result file counts as one that did not succeed."""
    exit_tells: bool = True
    """Whether exit status 0 says that the agent got through. If not, one whose last call of a model failed
    counts as one that did not, whatever it exits with."""


class MetricPart(Part):
    """What the grader's score is: direction and bounds are declared, never guessed."""

    name: Text = "score"
    """Name of the primary metric. A grader that writes `{"score": x}` means this one; a value under this
    name in its `metrics` counts as well."""
    better: Literal["higher", "lower"] = "higher"
    """Whether more or less of it is better."""
    min: float | None = None
    """No score lies below; null: no such bound. A score outside its bounds is an error of the grader."""
    max: float | None = None
    """No score lies above; null: no such bound."""

    @model_validator(mode="after")
    def _have_some_room(self) -> "MetricPart":
        if self.min is not None and self.max is not None and self.min >= self.max:
            raise ValueError(f"min ({self.min:g}) must be below max ({self.max:g})")
        return self


class GraderPart(Part):
    """How the grader is started: in the same sandbox, after everything the agent started is gone."""

    command: Command = ()
    """What starts the grader; required, here or in each task. Bindings can't be used: variants are judged
    alike."""
    dir: Text | None = None
    """Folder with the grader's files; it arrives at the barrier, as `$grader_dir`, and the agent never sees
    it."""
    env: Env = {}
    """Variables for the grader. null takes one of a base away."""
    secrets: list[Text] = []
    """Names of variables whose values come from lab's own environment or from `--env-file`."""
    user: Text | None = None
    """User inside the image; null is the image's own."""
    network: NetworkChoice = NO_NETWORK
    """What the grader may reach."""
    timeout_s: Seconds = 600.0
    """After so many seconds the grader has failed."""
    retries: Annotated[int, Field(ge=0)] = 1
    """How often a failed grader is started again before the whole attempt counts as failed."""
    pass_at: float = 1.0
    """`{"score": x}` passes when x is at least this; at most, where `metric` says that lower is better."""
    metric: MetricPart | None = None
    """What the score is: `{name, better, min, max}`. null: verdicts, or scores of which higher is better and
    which nothing bounds."""
    where: Literal["same", "fresh", "pristine"] = "same"
    """`same`: the sandbox that the agent ran in; `fresh`: a new container over the same workspace;
    `pristine`: a new one without what the agent left in a folder of the image: its work is the patch of
    `collect: [patch]`, which the grader applies."""
    repeatable: bool = False
    """Whether the grader may run again on a workspace that a grader has already seen."""


class SandboxPart(Part):
    """Where attempts run, and within which limits."""

    kind: KindName | None = None
    """What sandboxes are made of; null is `docker` when an image is named anywhere, else `bubblewrap`.
    `process` isolates nothing; other packages may bring more."""
    image: Text | None = None
    """Image for docker. `$name` puts bindings in."""
    build: Text | None = None
    """Folder with a Dockerfile to build the image from; built again only when its content has changed."""
    build_timeout_s: Seconds | None = None
    """Seconds for building or fetching an image; null waits as long as something is told of it."""
    pull: Literal["preflight", "lazy", "never"] = "preflight"
    """When missing images are fetched: all of them before anything runs, each with its first trial, or
    never."""
    prune_images: bool = False
    """Whether images that were fetched are removed again: at the end, with `pull: lazy` as soon as no trial
    uses one."""
    workdir: GuestPath | None = None
    """Working directory inside the image, instead of the workspace."""
    cpus: Annotated[float, Field(gt=0)] | None = None
    """Processors for one attempt; null is 2. A limit that is written down must be enforceable here, a default
    holds where it can be."""
    memory_mb: Count | None = None
    """Memory for one attempt; null is 2048."""
    pids: Count | None = None
    """Processes and threads for one attempt; null is 512."""
    disk_mb: Count | None = None
    """Disk for one attempt, with 64 files for each MiB and at least 10,000: over either the agent is ended,
    and what it left is graded; null is 10240."""
    read_only: bool = False
    """Whether the image's own files are read-only."""
    tmpfs: Tmpfs = {}
    """Folders in memory inside the container, with their sizes: `{/scratch: 64m}`."""
    limits: Literal["enforced", "best_effort"] = "enforced"
    """`best_effort` runs even where a limit that is written down can't be enforced."""


class ResourcesPart(Part):
    """A task's own limits, instead of the sandbox's."""

    cpus: Annotated[float, Field(gt=0)] | None = None
    """Processors; null leaves the sandbox's."""
    memory_mb: Count | None = None
    """Memory; null leaves the sandbox's."""
    pids: Count | None = None
    """Processes and threads; null leaves the sandbox's."""
    disk_mb: Count | None = None
    """Disk; null leaves the sandbox's."""


class VariantPart(Part):
    """One configuration under test. The first one is the baseline."""

    id: Id
    """Name of the variant; each only once."""
    bindings: JsonMap = {}
    """Values for `$name` in the agent's and setup's commands, folders and variables; the agent finds all of
    them in `bindings.json`."""
    agent: AgentPart = AgentPart()
    """Fields that differ from the experiment's agent; maps are merged, lists and values replaced."""
    setup: SetupPart = SetupPart()
    """Fields that differ from the experiment's setup."""
    sandbox: SandboxPart = SandboxPart()
    """Fields that differ from the experiment's sandbox."""


class TaskSource(Part):
    """Where the tasks come from, and which of them are taken."""

    file: Text
    """A `.jsonl`, `.json`, `.csv` or `.parquet` file; or `name:…`, what a source of another package is asked
    for."""
    fields: dict[Text, Text] = {}
    """Where the file has other names: a task's field, and what the file calls it, such as
    `{id: instance_id, input: problem_statement, metadata.repo: repo}`. Nothing else of the file is taken."""
    include: list[Text] = []
    """Patterns (`*`, `?`, `[…]`) of ids to take; empty takes all."""
    exclude: list[Text] = []
    """Patterns of ids to leave out."""
    tags: list[Text] = []
    """Takes the tasks that have at least one of these tags; empty takes all."""
    limit: Count | None = None
    """Takes the first so many of what is left."""

    @model_validator(mode="before")
    @classmethod
    def _accept_a_bare_path(cls, value: object) -> object:
        return {"file": value} if isinstance(value, str) else value


def _tasks_kind(value: object) -> str:
    return "<list>" if isinstance(value, list) else "<file>"


Tasks: TypeAlias = Annotated[
    Annotated[TaskSource, Tag("<file>")] | Annotated[list[Any], Tag("<list>")],
    Discriminator(_tasks_kind),
    Shown("path, `{file, fields, include, exclude, tags, limit}`, or list of tasks"),
]


def _as_list(value: object) -> object:
    return [value] if isinstance(value, str) else value


class KeepPart(Part):
    """What is left of an attempt after its commit. Digests are kept in any case."""

    workspace: KeepChoice = "failed"
    """Workspaces: `failed` keeps those of trials that did not pass."""
    logs: KeepChoice = "always"
    """Output of setup, agent and grader."""


class BreakerPart(Part):
    """When a row of failures of the same kind pauses the run instead of using it up."""

    after: Count = 5
    """So many attempts in a row with one cause (`sandbox`, `provider` or `account`) pause the dispatch."""
    give_up_after_s: Seconds | None = None
    """After so many seconds of pause the run fails; null waits for ever."""


class BudgetPart(Part):
    """What a run may use, by the reports of its attempts: no new trial starts once a limit is reached."""

    cost_usd: Annotated[float, Field(gt=0)] | None = None
    """US dollars."""
    tokens: Count | None = None
    """Tokens."""


class ExecutorPart(Part):
    """Who carries trials out. Not measured: the same experiment gives the same results wherever it runs."""

    kind: Text = LOCAL
    """`local`: this machine; `ray`: the nodes of a Ray cluster ([More than one machine](../cluster.md)); or
    another package's."""
    address: Text = "auto"
    """Where a cluster is: `host:port` of its head; `auto`: what `RAY_ADDRESS` says, else the cluster that
    this machine is part of. Beside `local` it is refused, as are the fields below."""
    per_node: MaxConcurrency = "auto"
    """How many trials a node takes at a time; `auto`: what its own processors and memory allow."""
    labels: dict[Text, Text] = {}
    """Only nodes with all of these labels are used (`ray start --labels zone=a`); empty: all nodes."""


class ExperimentFile(Part):
    """An experiment file."""

    schema_version: SchemaVersion = Field(default=1, alias="schema")
    """Version of this format."""
    name: Text
    """Name of the experiment; part of a run's id."""
    description: str = ""
    """For people."""
    tags: list[Text] = []
    """For people and listings; recorded with the run."""
    extends: Text | None = None
    """One base file. Its fields hold where this file has none: maps are merged, lists and values replaced.
    Relative paths start from the file that they stand in."""
    tasks: Tasks
    """What is to be solved."""
    variants: list[VariantPart] = []
    """What is compared. None: one variant called `baseline`."""
    matrix: dict[str, list[Any]] = {}
    """One variant for each combination of these bindings, with ids like `model=a,effort=low`; instead of
    `variants`."""
    setup: SetupPart = SetupPart()
    """A command before the agent."""
    agent: AgentPart = AgentPart()
    """The agent."""
    models: dict[str, ModelPart] = {}
    """Models that agents reach through the gateway, by names of the author's own: letters, digits, `-`, `_`
    and `.`."""
    grader: GraderPart = GraderPart()
    """The grader."""
    sandbox: SandboxPart = SandboxPart()
    """Where attempts run."""
    trust: Literal["standard", "strict"] = "standard"
    """`strict`: the barrier restarts the container, and what can't be guaranteed is refused."""
    on_system_change: Literal["afresh", "flag", "refuse", "ignore"] = "afresh"
    """What to do when the agent changed files of its container's image. `afresh`: judge its workspace in a
    fresh container; `flag`: judge in the changed one, where the grader's own tools may be the agent's;
    `refuse`: don't judge, it has failed; `ignore`: don't look. All but `ignore` flag the trial. With a
    `setup` in a container it must be written down, because what setup did to the system is not in a fresh
    one."""
    collect: Annotated[list[Text], BeforeValidator(_as_list)] = []
    """Paths copied out of the finished sandbox into the attempt's artifacts. Those outside the attempt's own
    folders (`/var/log/tool`) only from containers; other sandboxes refuse them. The word `patch` stands for
    what was changed in `workdir`, a git work tree of the image, as `patch.diff` of the attempt; a file of
    that name is `./patch`."""
    keep: KeepPart = KeepPart()
    """What is left of an attempt after its commit."""
    replications: Count = 1
    """How often each variant tries each task."""
    population: Literal["tasks_like_these", "these_tasks"] = "tasks_like_these"
    """What conclusions and `--require` speak of: tasks of the same kind as these, which needs six tasks or
    groups at least; or these very tasks, for a fixed suite that is the whole point."""
    retry_margin: Annotated[float, Field(gt=0, lt=1)] = 0.02
    """By how much of its scale retries may have moved a mean before they are said to have bent it, and
    `--require-stable` is not met."""
    order: Literal["balanced", "by_variant", "by_task", "shuffled"] = "balanced"
    """Order of the trials. `balanced`: replication, then task, then variant; `by_variant`: variant,
    replication, task; `by_task`: task, replication, variant; `shuffled`: by the seed."""
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 0
    """Decides the order of `shuffled`."""
    max_concurrency: MaxConcurrency = "auto"
    """How many trials run at a time; `auto`: what processors and memory of host and trials allow."""
    executor: ExecutorPart = ExecutorPart()
    """Who carries trials out."""
    grade_on_agent_failure: bool = True
    """Whether an agent that did not succeed is graded on what it left; if not, it has failed."""
    fail_on_error: FailOnError = True
    """When errors (not failed tasks) fail the run. true: at the first; false: never; below 1: when more than
    this share of the planned trials have errors; from 1 on: when more than this many have."""
    continue_on_fail: bool = False
    """Whether a run that has failed by its errors goes on to its end first."""
    retry_on_error: Annotated[int, Field(ge=0)] = 0
    """How many more attempts a trial with an error gets."""
    breaker: BreakerPart = BreakerPart()
    """When a row of failures pauses the run."""
    min_free_disk_gb: Annotated[float, Field(ge=0)] = 5.0
    """Below so much free disk no new trial starts."""
    budget: BudgetPart = BudgetPart()
    """Limits for the whole run."""
    metadata: JsonMap = {}
    """The author's own; recorded with the run."""
