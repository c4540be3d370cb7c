"""What one resolution works on, and what it gathers on its way."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from labrunner.errors import InputError
from labrunner.experiment.agents.furnished import PromptUse
from labrunner.experiment.authoring.authored import ExperimentFile
from labrunner.experiment.authoring.document import Document
from labrunner.experiment.authoring.problems import Problems
from labrunner.experiment.authoring.section import Spot
from labrunner.experiment.folders import Contents
from labrunner.experiment.options.overrides import Overrides
from labrunner.experiment.resolved import Folder

if TYPE_CHECKING:
    from labrunner.experiment.agents.installed import Release


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """A decoded file with the command line's options, the problems so far, and the folders already read."""

    file: ExperimentFile
    document: Document
    overrides: Overrides
    problems: Problems
    needs_agent: bool = True
    """Whether an agent must be named; where none is, nothing runs in its place."""
    contents: Contents = field(default_factory=Contents)
    missing: "dict[str, Release]" = field(default_factory=dict)
    """Agents that are not installed here, by their labels."""
    prompted: dict[str, PromptUse] = field(default_factory=dict)
    """Variants whose agent's script reads the task's text, by their ids."""

    def folder(self, read: Callable[[Path], Folder], text: str, spot: Spot) -> Folder | None:
        """Read what a path names, starting from the file that it stands in."""
        try:
            return read(spot.folder / text)
        except InputError as error:
            found = f"{error.where}: {error.problem}" if error.where else error.problem
            self.problems.add(spot.where, found)
            return None
