"""Packages of npm, and Node itself, which npm has as a package too.

Rules: no script of a package is run. What npm writes for itself (lock files, links) is taken away: it would
name the registry of this host, and two hosts would have two digests of the same files.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from labrunner.depot.carried import LIBRARIES, carry_libraries
from labrunner.depot.package_tools import ask_tool, find_tool
from labrunner.experiment.agents.installed import Release, arch
from labrunner.files.strangers.removal import remove_tree

NODE: Final = Path("node", "node_modules")
_OPTIONS: Final = (
    "--force",  # a package for another C library than this host's is wanted beside ours
    "--ignore-scripts",
    "--install-links",  # a folder is copied like any package
    "--no-audit",
    "--no-fund",
    "--no-package-lock",
    "--no-save",
    "--omit=dev",
    "--loglevel=error",
)


def fetch_npm(release: Release, tree: Path) -> None:
    """Put a release's packages into a tree. Raises InstallFailed."""
    install = release.install
    named = (install.npm or "", *install.also)
    wanted = [each if "@" in each[1:] or "$version" in each else f"{each}@$version" for each in named]
    _install([release.fill(each) for each in wanted], tree, release.label)
    if install.node is not None:
        _bring_node(install.node, tree)


def node_program() -> Path:
    """Where Node's program lies in a tree."""
    return NODE / f"node-linux-{arch()}" / "bin" / "node"


def _bring_node(version: str, tree: Path) -> None:
    """Bring Node's program, with the libraries that it needs; not what is for building with it."""
    _install([f"node-linux-{arch()}@{version}"], tree / "node", f"Node {version}")
    program = tree / node_program()
    for unused in ("include", "share"):
        remove_tree(program.parents[1] / unused)
    carry_libraries([program], tree / "node" / LIBRARIES)


def _install(packages: Sequence[str], folder: Path, label: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "package.json").write_text(json.dumps({"private": True}), encoding="utf-8")
    argv = [
        find_tool("npm"),
        "install",
        *_OPTIONS,
        "--os=linux",
        f"--cpu={arch()}",
        "--libc=glibc",
        *packages,
    ]
    ask_tool(argv, cwd=folder, doing=f"installing {label} from npm")
    for left in ("package.json", "package-lock.json", "node_modules/.package-lock.json"):
        (folder / left).unlink(missing_ok=True)
    remove_tree(folder / "node_modules" / ".bin")
