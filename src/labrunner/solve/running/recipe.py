"""How a Python task is made again on another machine: what this one tells that one, beside the files.

Rule: nothing in it is secret: models' keys travel with the run's secrets.
"""

from typing import Any, Final

import msgspec

from labrunner.experiment.resolved import Program

PROJECT: Final = "project"
"""Where the files of the task's project lie in the folder that is delivered."""
SCRIPT: Final = "script"
"""Where the script lies that stands for a model."""
CARRIED: Final = "environment:"
"""Begins the name of a variable among the secrets that travel: a declared one of its name may be another."""


class Recipe(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One task."""

    project: str
    """Where its project lies on the machine that it comes from."""
    file: str
    """Its file, below the project."""
    roots: tuple[str, ...]
    """Folders that its modules are looked for in, below the project."""
    modules: dict[str, str]
    """The files of its modules, by their names."""
    overrides: dict[str, Any]
    """What options change about it."""
    environment: tuple[str, ...]
    """Variables that models' clients read; their values travel as secrets."""
    script: str | None = None
    """The file that stands for its model."""
    program: Program
    """What it has to be there."""


def encode_recipe(recipe: Recipe) -> bytes:
    """Make bytes of it."""
    return msgspec.json.encode(recipe)


def decode_recipe(data: bytes) -> Recipe:
    """Make it of bytes."""
    return msgspec.json.decode(data, type=Recipe)
