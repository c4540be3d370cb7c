"""A task row as its author writes it: in a task file, or inline in the experiment file."""

# ruff: noqa: RUF012 - pydantic copies defaults

from typing import Annotated, Self

from pydantic import model_validator

from labrunner.experiment.authoring.authored import GraderPart, ResourcesPart, SetupPart
from labrunner.experiment.authoring.part import Part, Seconds, Text
from labrunner.experiment.authoring.values import (
    BadValue,
    Command,
    Env,
    Files,
    GuestPath,
    Id,
    Json,
    JsonMap,
    NetworkChoice,
    Shown,
)


class SolutionPart(Part):
    """How a task is solved: what the agent `oracle` runs, and no other agent sees."""

    command: Command = ()
    """What solves the task, in the working directory. Empty: `solve.sh` of `dir`."""
    dir: Text | None = None
    """Folder with the solution's files: `$agent_dir`, which is `/solution` too where sandboxes have a file
    system of their own."""
    env: Env = {}
    """Variables for the command."""

    @model_validator(mode="before")
    @classmethod
    def _accept_a_bare_command(cls, value: object) -> object:
        return {"command": value} if isinstance(value, str | list) else value

    @model_validator(mode="after")
    def _has_something_to_run(self) -> Self:
        if not self.command and self.dir is None:
            raise BadValue("must be a command, or {dir: folder} with a solve.sh in it")
        return self


class TaskAgentPart(Part):
    """What a task decides about its agent, whichever variant's it is."""

    user: Text | None = None
    """User inside the image; null leaves the variant's."""
    network: NetworkChoice | None = None
    """What the agent may reach beside its models, which it keeps; null leaves the variant's."""


class TaskRow(Part):
    """One problem to solve."""

    id: Id
    """Name of the task; each only once."""
    input: Json = None
    """What the agent is given, as `task.json`. Required, unless there is a `prompt`."""
    prompt: str | None = None
    """The task's text, as `prompt.txt`. null: `input`, when that is text, or its text field `prompt`."""
    target: Json = None
    """The hidden answer, for the grader only, as `target.json`."""
    solution: Annotated[SolutionPart, Shown("command, or `{command, dir, env}`")] | None = None
    """How the task is solved: a command, or a folder with a `solve.sh`. The agent `oracle` runs it; no other
    agent sees anything of it."""
    image: Text | None = None
    """Image for this task, instead of the sandbox's."""
    build: Text | None = None
    """Folder with a Dockerfile to build this task's image from, instead of `image`."""
    build_timeout_s: Seconds | None = None
    """Seconds for building or fetching this task's image."""
    workdir: GuestPath | None = None
    """Working directory inside the image."""
    workspace: Text | None = None
    """Folder or archive (`.tar`, `.tar.gz`, `.tgz`, `.zip`) whose content the workspace starts with."""
    files: Files = {}
    """Files put into the workspace after that, by relative path."""
    setup: SetupPart | None = None
    """Fields of the experiment's setup that differ for this task; with it, the variants' own setup does not
    run."""
    agent: TaskAgentPart | None = None
    """What the task decides about its agent: `{user, network}`."""
    timeout_s: Seconds | None = None
    """The agent's time for this task."""
    grader: GraderPart | None = None
    """Fields of the grader that differ for this task."""
    collect: list[Text] = []
    """Paths copied out of the finished sandbox, besides the experiment's."""
    group: Text | None = None
    """Tasks of one group are not independent of each other: intervals are clustered by it."""
    tags: list[Text] = []
    """For choosing tasks."""
    env: Env = {}
    """Variables for setup, agent and grader of this task."""
    metadata: JsonMap = {}
    """The author's own; neither agent nor grader sees it."""
    resources: ResourcesPart = ResourcesPart()
    """The task's own limits."""

    @model_validator(mode="after")
    def _has_something_to_solve(self) -> Self:
        if "input" not in self.model_fields_set and self.prompt is None:
            raise BadValue("has neither input nor prompt; one of them says what is to be solved")
        if self.image is not None and self.build is not None:
            raise BadValue("has both image and build; keep one")
        return self

    @property
    def has_target(self) -> bool:
        """Whether there is a hidden answer; null may be one."""
        return "target" in self.model_fields_set

    def text(self) -> str | None:
        """Give the task's text, if it has one."""
        if self.prompt is not None:
            return self.prompt
        inner = self.input.get("prompt") if isinstance(self.input, dict) else self.input
        return inner if isinstance(inner, str) else None
