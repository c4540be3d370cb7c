"""Packages of PyPI, with the interpreter that runs them: that of lab, carried along.

Rules: wheels only, so that nothing is built here. What tools write of their own way of installing is taken
away: it would name folders of this host, and two hosts would have two digests of the same files.
"""

import shutil
import sys
import sysconfig
from pathlib import Path
from typing import Final

from labrunner.depot.carried import LIBRARIES, LOADER, carry_libraries, is_binary
from labrunner.depot.package_tools import ask_tool, find_tool
from labrunner.experiment.agents.installed import Release
from labrunner.experiment.agents.shell_words import quote
from labrunner.files.strangers.removal import remove_tree

SITE: Final = "site"
PYTHON: Final = Path("python", "bin", "python3")
_UNUSED: Final = (
    "test",
    "idlelib",
    "lib2to3",
    "ensurepip",
    "tkinter",
    "turtledemo",
    "site-packages",
    "dist-packages",
    "config-*",
    "__pycache__",
)
"""Of the standard library: large, and nothing that a program needs."""
_START: Final = """import sys
sys.path.insert(0, {site!r}.replace("$here", sys.argv.pop(1)))
sys.argv[0] = {name!r}
from {module} import {function} as start
sys.exit(start())
"""


def fetch_python(release: Release, tree: Path) -> None:
    """Put a release's packages, and an interpreter, into a tree. Raises InstallFailed."""
    install = release.install
    names = [release.fill(each) for each in (install.pypi or "", *install.also)]
    wanted = [each if set(each) & set("=<>~") else f"{each}=={release.version}" for each in names]
    site = tree / SITE
    ask_tool([*_installer(), "--target", str(site), *wanted], cwd=tree, doing=f"installing {release.label}")
    remove_tree(site / "bin")
    for left in site.glob("*.dist-info/*"):
        if left.name in ("RECORD", "direct_url.json", "INSTALLER", "REQUESTED"):
            left.unlink()
    (site / ".lock").unlink(missing_ok=True)
    _carry_interpreter(tree)


def write_python_start(name: str, target: str) -> str:
    """The lines of a launcher that start `module:function`."""
    module, _, function = target.partition(":")
    code = _START.format(site=f"$here/{SITE}", name=name, module=module, function=function)
    libraries = f'"$here"/python/{LIBRARIES}'
    loader = f"{libraries}/{LOADER} --library-path {libraries} --argv0"
    program = f'"$here"/{PYTHON}'
    return f'exec {loader} {program} {program} -I -X utf8 -c {quote(code)} "$here" "$@"\n'


def _installer() -> list[str]:
    tool = find_tool("uv", "pip")
    if Path(tool).name.startswith("uv"):
        return [
            tool,
            "pip",
            "install",
            "--quiet",
            "--only-binary=:all:",
            "--compile-bytecode",
            "--python",
            sys.executable,
        ]
    return [sys.executable, "-m", "pip", "install", "--quiet", "--only-binary=:all:", "--compile"]


def _carry_interpreter(tree: Path) -> None:
    """Copy the interpreter that lab runs on, its standard library, and what both need of this host."""
    home = tree / "python"
    library = Path(sysconfig.get_path("stdlib"))
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    (home / "bin").mkdir(parents=True)
    shutil.copyfile(Path(sys.base_prefix, "bin", version), tree / PYTHON)
    (tree / PYTHON).chmod(0o755)
    shutil.copytree(library, home / "lib" / version, ignore=shutil.ignore_patterns(*_UNUSED))
    inside = [path for path in (tree / SITE).rglob("*.so*") if is_binary(path)]
    inside += [path for path in (home / "lib").rglob("*.so") if is_binary(path)]
    carry_libraries([tree / PYTHON, *inside], home / LIBRARIES)
