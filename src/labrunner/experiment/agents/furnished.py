"""What is made of an agent that is used by name, and what one that is not can't be asked for.

Rule: light to load: most experiments name no agent.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from labrunner.errors import InputError
from labrunner.experiment.authoring.authored import AgentPart
from labrunner.experiment.authoring.problems import Problems
from labrunner.experiment.authoring.section import Section
from labrunner.experiment.resolved import Folder, NamedAgent, Runs

if TYPE_CHECKING:
    from labrunner.experiment.agents.installed import Release

SETTINGS: Final = ("effort", "turns", "system_prompt")


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptUse:
    """That an agent's script reads the task's text."""

    most_bytes: int | None
    """Of a text that becomes an argument or a variable; None: it goes into files only."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Furnished:
    """An agent's section as if it had been written out, and what it was made of."""

    section: Section[AgentPart]
    named: NamedAgent | None = None
    folder: Folder | None = None
    """Where it is installed."""
    missing: "Release | None" = None
    """What is not installed."""
    is_found: bool = True
    """False: it is used by name, and there is none that can be; a problem by now."""
    prompt: PromptUse | None = None
    """How its script uses the task's text; None: it does not."""
    runs: Runs | None = None
    """What it starts in the place of a command."""


class AgentsMissing(InputError):
    """An experiment is well but for agents that are not installed here."""

    def __init__(self, where: str, releases: "tuple[Release, ...]") -> None:
        """Name the releases, and how they are installed."""
        self.releases = releases
        told = f"not installed on this host: {', '.join(release.label for release in releases)}"
        asked = " ".join(release.request for release in releases)
        super().__init__(where, f"{told}; try: lab agents install {asked}")


def refuse_told(section: Section[AgentPart], told: str, problems: Problems) -> None:
    """Refuse what only an agent that is told its settings can be asked for."""
    for field in ("version", "model", *SETTINGS, "args", "files"):
        if getattr(section.part, field):
            problems.add(section.at(field).where, told)


def refuse_started(section: Section[AgentPart], told: str, problems: Problems) -> None:
    """Refuse a program beside what an agent runs in the place of one."""
    for field in ("command", "dir"):
        if getattr(section.part, field):
            problems.add(section.at(field).where, told)


def name_agent(use: str) -> str:
    """What an agent is called: its name, or that of its file."""
    return Path(use).stem if is_path(use) else use


def is_path(use: str) -> bool:
    """Whether an agent is used by its file."""
    return use.endswith((".yaml", ".yml")) or use.startswith((".", "/"))
