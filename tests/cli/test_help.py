import re
import sys
from pathlib import Path

import pytest

from labrunner.cli.catalogue import COMMANDS
from labrunner.cli.main import with_values
from tests.kit.cli.calling import lab


def test_help_names_every_command(tmp_path: Path) -> None:
    page = lab("--help", cwd=tmp_path)

    assert page.code == 0
    assert all(re.search(rf"^  {name}\b", page.out, re.MULTILINE) for name in COMMANDS)


@pytest.mark.parametrize("name", [*COMMANDS, "eval"])
def test_every_command_has_help_of_its_own(tmp_path: Path, name: str) -> None:
    page = lab(name, "--help", cwd=tmp_path)

    assert page.code == 0
    assert "Usage: lab" in page.out
    assert "[[" not in page.out


def test_help_loads_nothing_heavy(tmp_path: Path) -> None:
    import subprocess

    code = "import sys; from labrunner.cli.main import run; run(['--help']); print(sorted(sys.modules))"
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path
    ).stdout

    for heavy in ("'typer'", "'rich'", "'pydantic'", "'numpy'", "'scipy'", "'asyncio'", "'msgspec'"):
        assert heavy not in loaded


def test_optional_values_are_filled_in() -> None:
    assert with_values(["--retry-on-error", "x.yaml", "--no-fail-on-error"]) == [
        "--retry-on-error=1",
        "x.yaml",
        "--fail-on-error=false",
    ]
