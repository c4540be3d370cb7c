"""A person's own script, in a process of its own."""

import subprocess
import sys
from pathlib import Path

from tests.kit.cli.calling import environment


def script(folder: Path, text: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", text],
        cwd=folder,
        env=environment(**env),
        capture_output=True,
        text=True,
        timeout=100,
    )
