"""The doors that other packages can add to, for `lab doctor`: what each knows, and from where."""

from typing import Any, Final

from labrunner.experiment.sandbox_kinds import KINDS
from labrunner.registry import Registry

DOORS: Final[tuple[Registry[Any], ...]] = (KINDS,)  # each is of a type of its own


def list_doors() -> list[dict[str, str]]:
    """Every name of every door, as a program reads it; those of other packages are tried."""
    return [
        {
            "door": door.noun,
            "group": door.group,
            "name": known.name,
            "origin": known.origin,
            "target": known.target,
            "problem": known.problem,
        }
        for door in DOORS
        for known in door.try_all()
    ]
