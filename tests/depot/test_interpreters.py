"""An agent from PyPI gets the Python that it asks for, wherever this host has it."""

import sys
from pathlib import Path

import pytest

from labrunner.depot.interpreters import find_interpreter
from labrunner.depot.package_tools import InstallFailed

SAYS = """#!/bin/sh
echo '{"version": "3.98", "prefix": "/opt/python", "library": "/opt/python/lib"}'
"""


def write_program(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True)
    path.write_text(text)
    path.chmod(0o755)


def test_it_is_that_of_lab_unless_another_is_asked_for() -> None:
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    found = find_interpreter(None, "it==1")
    assert found == find_interpreter(version, "it==1")
    assert found.version == version
    assert found.program == Path(sys.base_prefix, "bin", f"python{version}")
    assert (found.library / "os.py").is_file()


def test_a_name_that_leads_to_no_interpreter_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_program(tmp_path / "shims/python3.98", "#!/bin/sh\necho 'no such version' >&2\nexit 127\n")
    write_program(tmp_path / "pyenv/versions/3.98.1/bin/python3.98", SAYS)
    monkeypatch.setenv("PATH", f"{tmp_path / 'shims'}:/usr/bin:/bin")
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path / "pyenv"))
    assert find_interpreter("3.98", "it==1").program == Path("/opt/python/bin/python3.98")


def test_a_python_that_is_nowhere_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path))
    with pytest.raises(InstallFailed, match=r"it==1 runs on Python 3.98, and there is none here: neither"):
        find_interpreter("3.98", "it==1")
