"""The programs that an agent's command calls: small scripts in `bin/`, for any POSIX shell.

Rules: what an agent is made of is on nobody's PATH: a task's own `node` and `python` stay what they are. The
C library is found out where the program runs, in the image. A launcher that can't start its program says why
and exits with `CANT_START`; where its shell can't, that exits with 126 or 127. An attempt that ends so is
blamed on the setup.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from labrunner.depot.carried import LIBRARIES, LOADER
from labrunner.depot.npm_packages import node_program
from labrunner.depot.package_tools import InstallFailed
from labrunner.depot.python_packages import write_python_start
from labrunner.experiment.agents.agent_file import ProgramPart
from labrunner.experiment.agents.furnishing import CANT_START
from labrunner.experiment.agents.installed import Release
from labrunner.experiment.agents.shell_words import quote

_HEAD: Final = """#!/bin/sh
here=${0%/*}/..
cant() { echo "lab: NAME can't be started here: $1" >&2; exit STATUS; }
libc=none
for each in /lib/ld-musl-*.so.1; do [ -e "$each" ] && libc=musl; done
for each in /lib64/ld-linux-*.so.* /lib/ld-linux-*.so.*; do [ -e "$each" ] && libc=glibc; done
"""
_NODE: Final = """node=$here/NODE
"$node" --version >/dev/null 2>&1 || node=$here/node/start
exec "$node" "$here"/PROGRAM "$@"
"""
"""By itself where the image has what it needs; else by the loader that came along."""
_NODE_START: Final = """#!/bin/sh
here=${0%/*}/..
node=$here/NODE
libraries=$here/node/LIBRARIES
set -- "$node" -r "$here"/node/start.cjs "$@"
exec "$libraries"/LOADER --library-path "$libraries" --argv0 "$node" "$@"
"""
_NODE_SELF: Final = "process.execPath = require('path').join(__dirname, 'start');\n"
"""A program that starts itself again is to find Node, where it would find the loader."""


def write_launchers(release: Release, tree: Path) -> None:
    """Write what the agent's command may call. Raises InstallFailed."""
    folder = tree / "bin"
    folder.mkdir()
    for name, program in release.install.programs.items():
        head = _HEAD.replace("NAME", release.label).replace("STATUS", str(CANT_START))
        path = folder / name
        path.write_text(head + "".join(_write_body(name, program, release, tree)), encoding="utf-8")
        path.chmod(0o755)
    if release.install.node is not None:
        start = tree / "node" / "start"
        start.write_text(_name_node(_NODE_START), encoding="utf-8")
        start.chmod(0o755)
        start.with_suffix(".cjs").write_text(_NODE_SELF, encoding="utf-8")


def _name_node(text: str) -> str:
    for mark, value in (("NODE", str(node_program())), ("LIBRARIES", LIBRARIES), ("LOADER", LOADER)):
        text = text.replace(mark, value)
    return text


def _write_body(name: str, program: str | ProgramPart, release: Release, tree: Path) -> Iterator[str]:
    if isinstance(program, ProgramPart):
        for libc in ("glibc", "musl"):
            file = _find(release.fill(getattr(program, libc)), release, tree)
            yield f'[ $libc = {libc} ] && exec "$here"/{quote(file)} "$@"\n'
        yield 'cant "there is neither glibc nor musl in this image"\n'
        return
    if release.install.pypi is not None:
        yield write_python_start(name, program)
        return
    file = _find(release.fill(program), release, tree)
    if release.install.node is not None:
        yield _name_node(_NODE).replace("PROGRAM", quote(file))
    else:
        yield f'exec "$here"/{quote(file)} "$@"\n'


def _find(file: str, release: Release, tree: Path) -> str:
    path = tree / file
    if not path.is_file():
        raise InstallFailed(
            f"{release.label}: its packages have no file '{file}', which its file names as a program"
        )
    if not path.resolve().is_relative_to(tree.resolve()):
        raise InstallFailed(f"{release.label}: the program '{file}' lies outside of what is installed")
    path.chmod(0o755)
    return file
