"""What other packages need to add to lab: the doors, what goes through them, what is raised behind them."""

from labrunner.errors import InputError, SandboxFailed, SetupFailed
from labrunner.executor.door import Discard, Executor, HasPlaces, StandsInFront
from labrunner.executor.local import LocalExecutor
from labrunner.experiment.resolved import SandboxPlan
from labrunner.experiment.sources.importers import Imported
from labrunner.experiment.sources.task_rows import Row, RowOrigin, SourceRequest
from labrunner.interop.exporter import Exporter
from labrunner.records.barrier import BarrierNote
from labrunner.records.completion import Completion
from labrunner.runner.reports.lookup import RunInFull
from labrunner.sandbox.door import (
    AgentRun,
    AttemptFolders,
    Check,
    Demands,
    Doors,
    GuestPaths,
    HasDoors,
    Phase,
    PhaseEnd,
    Reach,
    Sandbox,
    SandboxMaker,
    SandboxSpec,
    Survivor,
)
from labrunner.sandbox.execution import ExecCall, ExecEnd, ExecSandbox
from labrunner.sandbox.kind import SandboxKind
from labrunner.sandbox.marks import RunMark
from labrunner.sandbox.sweeper import Orphans, Strays, Sweeper
from labrunner.sandbox.terminals.person import Person, TerminalCall, TerminalSandbox, WindowSize
from labrunner.trial.assignment import Assignment, Notes, TrialContext

__all__ = [
    "AgentRun",
    "Assignment",
    "AttemptFolders",
    "BarrierNote",
    "Check",
    "Completion",
    "Demands",
    "Discard",
    "Doors",
    "ExecCall",
    "ExecEnd",
    "ExecSandbox",
    "Executor",
    "Exporter",
    "GuestPaths",
    "HasDoors",
    "HasPlaces",
    "Imported",
    "InputError",
    "LocalExecutor",
    "Notes",
    "Orphans",
    "Person",
    "Phase",
    "PhaseEnd",
    "Reach",
    "Row",
    "RowOrigin",
    "RunInFull",
    "RunMark",
    "Sandbox",
    "SandboxFailed",
    "SandboxKind",
    "SandboxMaker",
    "SandboxPlan",
    "SandboxSpec",
    "SetupFailed",
    "SourceRequest",
    "StandsInFront",
    "Strays",
    "Survivor",
    "Sweeper",
    "TerminalCall",
    "TerminalSandbox",
    "TrialContext",
    "WindowSize",
]
