"""Agents by name, `agent: {use: NAME}`: each the path of a YAML file (`agent_file.py`).

A file beside the experiment is named by its path and read in the same way. The experiment's own fields lie
over its; relative paths in it start from where it lies.
"""

from pathlib import Path
from typing import Final, TypeGuard

from labrunner.errors import InputError
from labrunner.experiment.agents.agent_file import AgentFile
from labrunner.experiment.agents.catalogue import FILES
from labrunner.experiment.agents.furnished import is_path
from labrunner.experiment.authoring.document import read_document
from labrunner.experiment.authoring.problems import Problems, validate
from labrunner.experiment.authoring.section import Section
from labrunner.registry import Registry


def _is_file(found: object) -> TypeGuard[Path]:
    return isinstance(found, Path)


AGENTS: Final = Registry(
    group="labrunner.agents",
    noun="agent",
    built_in={name: f"labrunner.experiment.agents.catalogue:{name}" for name in FILES},
    accepts=_is_file,
    wanted="the Path of a YAML file",
)


def find_agent(use: str, folder: Path, where: str) -> Path:
    """An agent's file. Raises InputError."""
    if not is_path(use):
        return AGENTS.find(use, where)
    if not (path := folder / use).exists():
        raise InputError(where, f"there is no file '{path}'")
    return path


def name_use(use: str, folder: Path) -> str:
    """What names an agent on a command line, of one that is named in a folder: a path starts from here."""
    return str(folder / use) if is_path(use) else use


def read_agent(use: str, folder: Path, where: str, problems: Problems) -> Section[AgentFile] | None:
    """Read an agent's file; None when something is wrong with it."""
    try:
        path = find_agent(use, folder, where)
        document = read_document(path, "an agent's file is a map of its fields (command, dir, env, …)")
    except InputError as error:
        problems.add(where, f"the agent '{use}' can't be used: {error.problem}")
        return None
    part = validate(AgentFile, document.data, document.where, problems)
    if part is None:
        return None
    for field in ("use", "model"):
        if getattr(part, field) is not None:
            told = {"use": "an agent's file can't use another; write its fields out"}
            problems.add(document.where((field,)), told.get(field, "is for experiments to say; take it out"))
            return None
    return Section.of(part, document)
