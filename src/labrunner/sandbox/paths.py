"""Where an attempt's folders lie, as the processes inside see them."""

import os
import sys
from pathlib import Path, PurePosixPath

from labrunner.sandbox.door import AttemptFolders, GuestPaths

AGENTLAB = "/agentlab"
HOME = "/home/agent"
TMP = "/tmp"
SOLUTION = "/solution"
"""Where else the oracle's folder is: scripts of other people's tasks name it."""


def guest_paths(python: str) -> GuestPaths:
    """Paths in a sandbox with a file system of its own."""
    return GuestPaths(
        inputs=f"{AGENTLAB}/in",
        workspace=f"{AGENTLAB}/workspace",
        out=f"{AGENTLAB}/out",
        state=f"{AGENTLAB}/state",
        agent=f"{AGENTLAB}/agent",
        grader=f"{AGENTLAB}/grader",
        python=python,
    )


def is_of_attempt(path: str) -> bool:
    """Whether a path inside lies in the attempt's own folders, which outlive its sandbox."""
    return PurePosixPath(path).is_relative_to(AGENTLAB)


def find_python() -> str:
    """The interpreter that `lab`'s own environment was made from: nothing that lab needs is installed in it.

    Where lab has no environment of its own, it is the one that runs lab.
    """
    if sys.prefix == sys.base_prefix:
        return sys.executable or "python3"
    base = f"{sys.base_prefix}/bin/python{sys.version_info.major}.{sys.version_info.minor}"
    return base if os.access(base, os.X_OK) else os.path.realpath(sys.executable)


def host_paths(folders: AttemptFolders, agent_dir: Path | None) -> GuestPaths:
    """Where things lie when inside and outside are the same file system."""
    return GuestPaths(
        inputs=str(folders.inputs),
        workspace=str(folders.workspace),
        out=str(folders.out),
        state=str(folders.state),
        agent="" if agent_dir is None else str(agent_dir),
        grader=str(folders.grader),
        python=find_python(),
    )
