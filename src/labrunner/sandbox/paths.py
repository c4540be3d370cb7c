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
SYSTEM = (
    *("/bin", "/boot", "/dev", "/etc", "/lib", "/lib32", "/lib64", "/proc", "/run", "/sbin", "/sys"),
    *("/usr/bin", "/usr/lib", "/usr/lib32", "/usr/lib64", "/usr/libexec", "/usr/sbin"),
    *("/usr/local/bin", "/usr/local/lib", "/usr/local/sbin", "/var/lib"),
)
"""Folders of an image with what graders are run by."""


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


def works_in_image(workdir: str | None) -> bool:
    """Whether agents work in a folder of their image, which is in no other container as they leave it."""
    return workdir is not None and not is_of_attempt(workdir)


def can_be_carried(workdir: str | None) -> bool:
    """Whether work in a folder of an image can be put into another container: not where the system lies."""
    if workdir is None or not works_in_image(workdir):
        return False
    path, system = PurePosixPath(workdir), tuple(map(PurePosixPath, SYSTEM))
    return not any(path.is_relative_to(place) or place.is_relative_to(path) for place in system)


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
