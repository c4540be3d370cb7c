"""Where a run comes from: who, which machine, which versions, which state of the experiment's folder."""

import getpass
import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

from labrunner.experiment.addresses import hide_credentials
from labrunner.files.host import boot_id
from labrunner.records.run import Git, Provenance
from labrunner.version import VERSION

_GIT_PATIENCE_S: Final = 5.0


def observe(source: Path) -> Provenance:
    """Look around; `source` is the experiment's file."""
    return Provenance(
        user=user_name(),
        host=platform.node(),
        boot_id=boot_id(),
        platform=f"{platform.system()} {platform.release()} {platform.machine()}",
        python=platform.python_version(),
        labrunner=VERSION,
        argv=tuple(map(hide_credentials, sys.argv)),
        git=_git(source.parent),
    )


def user_name() -> str:
    """Who this is; a number for users that no file knows, as containers have them."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())


def _git(folder: Path) -> Git | None:
    if shutil.which("git") is None:
        return None
    commit = _ask_git(folder, "rev-parse", "HEAD")
    if not commit:
        return None
    return Git(commit=commit.strip(), dirty=bool(_ask_git(folder, "status", "--porcelain", ".")))


def _ask_git(folder: Path, *args: str) -> str | None:
    try:
        answer = subprocess.run(
            ["git", "-C", str(folder), *args],
            capture_output=True,
            text=True,
            timeout=_GIT_PATIENCE_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return answer.stdout if answer.returncode == 0 else None
