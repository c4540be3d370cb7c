"""Agents by name, `agent: {use: NAME}`: each the path of a YAML file with fields of the agent section.

A file beside the experiment is named by its path and read in the same way. The experiment's own fields lie
over its; relative paths in it start from where it lies.
"""

from pathlib import Path
from typing import Final, TypeGuard

from labrunner.errors import InputError
from labrunner.experiment.authoring.authored import AgentPart
from labrunner.experiment.authoring.document import read_document
from labrunner.experiment.authoring.problems import Problems, validate
from labrunner.experiment.authoring.section import Section, Spot
from labrunner.registry import Registry


def _is_file(found: object) -> TypeGuard[Path]:
    return isinstance(found, Path)


AGENTS: Final = Registry(
    group="labrunner.agents",
    noun="agent",
    built_in={},
    accepts=_is_file,
    wanted="the Path of a YAML file",
)


def read_agent(use: str, spot: Spot, problems: Problems) -> Section[AgentPart] | None:
    """Read the fields that an agent's file brings; None when something is wrong with it."""
    try:
        path = spot.folder / use if _is_path(use) else AGENTS.find(use, spot.where)
        document = read_document(path, "an agent's file is a map of its fields (command, dir, env, …)")
    except InputError as error:
        problems.add(spot.where, f"the agent '{use}' can't be used: {error.problem}")
        return None
    part = validate(AgentPart, document.data, document.where, problems)
    if part is not None and part.use is not None:
        problems.add(document.where(("use",)), "an agent's file can't use another; write its fields out")
        return None
    return None if part is None else Section.of(part, document)


def _is_path(use: str) -> bool:
    return use.endswith((".yaml", ".yml")) or use.startswith((".", "/"))
