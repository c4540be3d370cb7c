"""The doors that other packages can add to, for `lab doctor`: what each knows, and from where."""

from typing import Any, Final

from labrunner.executor.registry import EXECUTORS
from labrunner.experiment.agents.known_agents import AGENTS
from labrunner.experiment.sandbox_kinds import KINDS
from labrunner.experiment.sources.importers import IMPORTERS
from labrunner.experiment.sources.registry import SOURCES
from labrunner.interop.registry import EXPORTERS
from labrunner.registry import Registry
from labrunner.solve.authoring.names import SCORERS, SOLVERS

# Each is of a type of its own.
DOORS: Final[tuple[Registry[Any], ...]] = (
    KINDS,
    EXECUTORS,
    SOURCES,
    IMPORTERS,
    EXPORTERS,
    AGENTS,
    SOLVERS,
    SCORERS,
)
NOUNS: Final = tuple(door.noun for door in DOORS)


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
