"""What other packages need to add to lab: the doors, and what goes through them."""

from labrunner.errors import InputError
from labrunner.experiment.sources.importers import Imported
from labrunner.experiment.sources.task_rows import Row, RowOrigin, SourceRequest
from labrunner.interop.exporter import Exporter
from labrunner.runner.reports.lookup import RunInFull
from labrunner.sandbox.door import (
    AgentRun,
    AttemptFolders,
    Check,
    Demands,
    GuestPaths,
    Phase,
    PhaseEnd,
    Sandbox,
    SandboxMaker,
    SandboxSpec,
    Survivor,
)
from labrunner.sandbox.kind import SandboxKind
from labrunner.sandbox.sweeper import Orphans, Strays, Sweeper

__all__ = [
    "AgentRun",
    "AttemptFolders",
    "Check",
    "Demands",
    "Exporter",
    "GuestPaths",
    "Imported",
    "InputError",
    "Orphans",
    "Phase",
    "PhaseEnd",
    "Row",
    "RowOrigin",
    "RunInFull",
    "Sandbox",
    "SandboxKind",
    "SandboxMaker",
    "SandboxSpec",
    "SourceRequest",
    "Strays",
    "Survivor",
    "Sweeper",
]
