"""Interpreters of Python on this host: that of lab, or one of the release that an agent asks for.

Rule: an interpreter is what says so itself when it is started. A name on the PATH may be a door to none.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from labrunner.depot.package_tools import InstallFailed

_ASK: Final = """import json, sys, sysconfig
version = "%d.%d" % sys.version_info[:2]
library = sysconfig.get_path("stdlib")
print(json.dumps({"version": version, "prefix": sys.base_prefix, "library": library}))
"""


class _Says(msgspec.Struct, frozen=True, kw_only=True):
    version: str
    prefix: str
    library: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Interpreter:
    """One Python, as it was installed; never a virtual environment's door to it."""

    version: str
    """Such as 3.12."""
    program: Path
    library: Path
    """Its standard library."""


def find_interpreter(version: str | None, label: str) -> Interpreter:
    """The interpreter for an agent: lab's own, unless it asks for another. Raises InstallFailed."""
    for program in _list_candidates(version):
        found = _ask(program)
        if found is not None and version in (None, found.version):
            return found
    places = f"neither python{version} on the PATH, nor one that pyenv has or uv can fetch"
    raise InstallFailed(
        f"{label} runs on Python {version}, and there is none here: {places}; install it first"
    )


def _list_candidates(version: str | None) -> Iterator[Path]:
    yield Path(sys.executable)
    if version is None:
        return
    name = f"python{version}"
    yield from (Path(folder, name) for folder in os.get_exec_path())
    home = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    yield from sorted(home.glob(f"versions/{version}.*/bin/{name}"))
    yield from _ask_uv("find", version)
    yield from _ask_uv("install", "--quiet", version)
    yield from _ask_uv("find", version)


def _ask_uv(*words: str) -> Iterator[Path]:
    """The interpreter that uv names; none where it has none, or is not here."""
    uv = shutil.which("uv")
    if uv is None:
        return
    done = subprocess.run(
        [uv, "python", *words], capture_output=True, text=True, errors="replace", check=False
    )
    if done.returncode == 0 and done.stdout.strip():
        yield Path(done.stdout.strip())


def _ask(program: Path) -> Interpreter | None:
    """What a program says of itself; None when it is no Python."""
    try:
        done = subprocess.run([program, "-I", "-c", _ASK], capture_output=True, check=False)
        told = msgspec.json.decode(done.stdout, type=_Says)
    except (OSError, msgspec.DecodeError):
        return None
    return Interpreter(
        version=told.version,
        program=Path(told.prefix, "bin", f"python{told.version}"),
        library=Path(told.library),
    )
