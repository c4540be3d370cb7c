"""The package `lab-extras`, which brings one of everything that lab has a door for."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tests.kit.extending.packages import write_package, write_wheel

NAME: Final = "lab-extras"

SANDBOX: Final = """
from contextlib import asynccontextmanager

from labrunner.extension import SandboxKind
from labrunner.sandbox.bare import ProcessMaker


class LoudMaker(ProcessMaker):
    @asynccontextmanager
    async def _open(self, spec):
        async with super()._open(spec) as sandbox:
            (spec.folders.workspace / "loud.txt").write_text("a loud sandbox was opened")
            yield sandbox


def make(*, anew):
    return LoudMaker()


KIND = SandboxKind(make=make, isolates_network=False, is_isolated=False)
"""

FILES: Final[Mapping[str, str]] = {"lab_extras/__init__.py": "", "lab_extras/sandbox.py": SANDBOX}
POINTS: Final[Mapping[str, Mapping[str, str]]] = {
    "labrunner.sandboxes": {"loud": "lab_extras.sandbox:KIND"},
}


def write_extras(site: Path) -> dict[str, str]:
    """Write it as an installer leaves it; what `lab` needs in its environment to see it."""
    return {"PYTHONPATH": str(write_package(site, NAME, FILES, POINTS, "2.1"))}


def wheel_of_extras(folder: Path) -> Path:
    """Write it as a wheel."""
    return write_wheel(folder, NAME, FILES, POINTS, "2.1")
