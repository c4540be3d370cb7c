"""Packages of PyPI, with the interpreter that runs them, carried along.

Rules: wheels only, but for packages that an agent's file names: nothing else is built here. What tools write
of their own way of installing is taken away: it would name folders of this host, and two hosts would have
two digests of the same files.
"""

import shutil
from pathlib import Path
from typing import Final

from labrunner.depot.carried import LIBRARIES, LOADER, carry_libraries, is_binary
from labrunner.depot.interpreters import Interpreter, find_interpreter
from labrunner.depot.package_tools import InstallFailed, ask_tool, find_tool
from labrunner.experiment.agents.agent_file import InstallPart
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
    interpreter = find_interpreter(install.python, release.label)
    site = tree / SITE
    argv = [*_installer(install, interpreter), "--target", str(site), *wanted]
    ask_tool(argv, cwd=tree, doing=f"installing {release.label} from PyPI")
    remove_tree(site / "bin")
    for left in site.glob("*.dist-info/*"):
        if left.name in ("RECORD", "direct_url.json", "INSTALLER", "REQUESTED"):
            left.unlink()
    (site / ".lock").unlink(missing_ok=True)
    _carry_interpreter(interpreter, tree)


def write_python_start(name: str, target: str) -> str:
    """The lines of a launcher that start `module:function`."""
    module, _, function = target.partition(":")
    code = _START.format(site=f"$here/{SITE}", name=name, module=module, function=function)
    libraries = f'"$here"/python/{LIBRARIES}'
    loader = f"{libraries}/{LOADER} --library-path {libraries} --argv0"
    program = f'"$here"/{PYTHON}'
    return f'exec {loader} {program} {program} -I -X utf8 -c {quote(code)} "$here" "$@"\n'


def _installer(install: InstallPart, interpreter: Interpreter) -> list[str]:
    tool, python = find_tool("uv", "pip"), ["--python", str(interpreter.program)]
    how = ["--quiet", "--only-binary=:all:", *(f"--no-binary={name}" for name in install.build)]
    if Path(tool).name.startswith("uv"):
        return [tool, "pip", "install", *how, "--compile-bytecode", *python]
    return [tool, *python, "install", *how, "--compile"]


def _carry_interpreter(interpreter: Interpreter, tree: Path) -> None:
    """Copy an interpreter, its standard library, and what both need of this host."""
    home = tree / "python"
    (home / "bin").mkdir(parents=True)
    shutil.copyfile(interpreter.program, tree / PYTHON)
    (tree / PYTHON).chmod(0o755)
    library = home / "lib" / f"python{interpreter.version}"
    try:
        shutil.copytree(interpreter.library, library, ignore=shutil.ignore_patterns(*_UNUSED))
    except shutil.Error as error:  # it goes on where it can't copy a file, and has a list in the end
        raise InstallFailed(f"copying {interpreter.library}: {error.args[0][0][2]}") from error
    inside = [path for path in (tree / SITE).rglob("*.so*") if is_binary(path)]
    inside += [path for path in (home / "lib").rglob("*.so") if is_binary(path)]
    carry_libraries([tree / PYTHON, *inside], home / LIBRARIES)
