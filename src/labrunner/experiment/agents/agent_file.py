"""An agent's file: fields of the agent section, and what is known of a program that somebody else wrote.

Rules: strict types, unknown fields refused. The text under each field is the reference page's.
"""

# ruff: noqa: RUF012 - pydantic copies defaults

from typing import Annotated, Literal, TypeAlias

from pydantic import Field, model_validator

from labrunner.experiment.authoring.authored import AgentPart
from labrunner.experiment.authoring.part import Part, Text
from labrunner.experiment.authoring.values import Env, HomeFiles, check_inner_path
from labrunner.experiment.resolved import Runs

Setting: TypeAlias = Literal["effort", "turns", "system_prompt"]
ProgramName: TypeAlias = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")]


class ProgramPart(Part):
    """A program that is there once for each C library, because it is bound to one."""

    glibc: Text
    """For images with glibc: Debian, Ubuntu, Fedora and most others."""
    musl: Text
    """For images with musl: Alpine."""


class InstallPart(Part):
    """What is installed, once, on the host. Texts may name `$version`, `$arch` (x64), `$machine` (x86_64)."""

    npm: Text | None = None
    """The package, where it comes from npm."""
    pypi: Text | None = None
    """The package, where it comes from PyPI; with extras in brackets, if need be."""
    also: list[Text] = []
    """Further packages of the same registry: of the same release, unless they say which (`name@1.2.3` of npm,
    `name>=1.2` of PyPI)."""
    node: Text | None = None
    """The release of Node that is brought along, for an agent that runs on it."""
    python: Annotated[str, Field(pattern=r"^3\.[0-9]+$")] | None = None
    """The release of Python that is brought along, such as 3.12, for an agent that does not run on lab's own.
    It is on this host, or uv can fetch it."""
    build: list[Text] = []
    """Packages of PyPI that have no wheels, and are built here: their own code runs on the host then."""
    programs: Annotated[dict[ProgramName, Text | ProgramPart], Field(min_length=1)]
    """What the agent's command may call: name to a file below the folder, to `{glibc, musl}`, or, from PyPI,
    to `module:function`."""

    @model_validator(mode="after")
    def _come_from_one_registry(self) -> "InstallPart":
        if (self.npm is None) == (self.pypi is None):
            raise ValueError("must name the package of one registry: npm, or pypi")
        if self.node is not None and self.npm is None:
            raise ValueError("node is for packages of npm; take it out")
        if (self.python is not None or self.build) and self.pypi is None:
            raise ValueError("python and build are for packages of PyPI; take them out")
        return self

    @model_validator(mode="after")
    def _stay_in_the_folder(self) -> "InstallPart":
        for program in self.programs.values():
            for path in [program] if isinstance(program, str) else [program.glibc, program.musl]:
                check_inner_path(path, "agent's folder")
        return self


class SettingPart(Part):
    """How the agent is told a setting. `$value` is what was asked for."""

    args: list[str] = []
    """Arguments, where the command has `$settings`."""
    env: Env = {}
    """Variables."""
    files: HomeFiles = {}
    """Files in its home."""
    values: list[Text] = []
    """What may be asked for; empty: anything."""


class AgentFile(AgentPart):
    """An agent that can be used by name: fields of the agent section, which those of experiments lie over."""

    about: str = ""
    """What it is, in one line."""
    dialects: list[Literal["openai", "anthropic", "gemini"]] = []
    """The protocols in which it can speak to a model. With any, `model` must be asked for, and the command
    may name `$model`, `$model_url` and `$model_key`."""
    install: InstallPart | None = None
    """What is installed on the host, and mounted read-only as `$agent_dir`."""
    runs: Runs | None = None
    """What it starts in the place of `command`: `solution`, each task's own, or `nothing`."""
    settings: dict[Setting, SettingPart] = {}
    """How it is told `effort`, `turns` and `system_prompt`; what does not stand here, it can't be told."""

    @model_validator(mode="after")
    def _start_one_thing(self) -> "AgentFile":
        for field in ("command", "install", "dialects", "settings", "dir", "args", "files"):
            if self.runs is not None and getattr(self, field):
                raise ValueError(f"{field} stands beside runs, which starts nothing else; keep one of them")
        return self

    @property
    def is_told(self) -> bool:
        """Whether its command is made of what is asked for, and not only handed on."""
        return bool(self.dialects or self.install or self.settings or self.files)
