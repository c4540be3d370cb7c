import re
import tomllib
from importlib.metadata import distributions
from pathlib import Path

from packaging.specifiers import SpecifierSet

ROOT = Path(__file__).parents[2]


def test_every_pinned_version_can_be_installed_with_the_oldest_python_that_is_promised() -> None:
    promised = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["requires-python"]
    oldest = f"{promised.removeprefix('>=')}.0"
    pinned = set(re.findall(r"^[\w.-]+==\S+$", (ROOT / "constraints.txt").read_text(), re.MULTILINE))
    installed = {f"{found.name}=={found.version}": found.metadata for found in distributions()}

    too_new = {
        name: asked
        for name in pinned & installed.keys()
        if (asked := installed[name]["Requires-Python"]) and oldest not in SpecifierSet(asked)
    }

    assert len(pinned & installed.keys()) > 50
    assert not too_new
