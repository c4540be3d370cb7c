"""The package managers of this host: found, asked, and quoted where they refuse.

Rule: they are used as they are set up here: registries, proxies and credentials are theirs.
"""

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from labrunner.errors import LabError

_SHOWN: Final = 12
"""Lines of what a package manager said: some say first what is wrong, and others last."""
_NOISE: Final = "npm warn"
"""Begins lines that are not why it failed."""


class InstallFailed(LabError):
    """An agent can't be installed on this host now."""


def find_tool(*names: str) -> str:
    """The first of these programs that is here. Raises InstallFailed."""
    for name in names:
        if (found := shutil.which(name)) is not None:
            return found
    raise InstallFailed(f"{' or '.join(names)} is needed to install agents, and is not on the PATH")


def ask_tool(argv: Sequence[str], *, cwd: Path, doing: str) -> str:
    """Let a package manager do something; what it printed. Raises InstallFailed."""
    try:
        done = subprocess.run(
            argv,
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
        )
    except OSError as error:
        raise InstallFailed(f"{doing}: {argv[0]} can't be started: {error.strerror}") from error
    if done.returncode != 0:
        told = "\n  ".join(_shorten(f"{done.stdout}\n{done.stderr}")) or "nothing"
        raise InstallFailed(f"{doing}: {Path(argv[0]).name} ended with {done.returncode} and said:\n  {told}")
    return f"{done.stdout}\n{done.stderr}"


def _shorten(said: str) -> list[str]:
    lines = [line for line in said.splitlines() if line.strip() and not line.startswith(_NOISE)]
    if len(lines) <= _SHOWN:
        return lines
    return [*lines[: _SHOWN // 2], "…", *lines[-_SHOWN // 2 :]]
