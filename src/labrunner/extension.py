"""What other packages need to add to lab: the doors, and what goes through them."""

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

__all__ = [
    "AgentRun",
    "AttemptFolders",
    "Check",
    "Demands",
    "GuestPaths",
    "Phase",
    "PhaseEnd",
    "Sandbox",
    "SandboxKind",
    "SandboxMaker",
    "SandboxSpec",
    "Survivor",
]
