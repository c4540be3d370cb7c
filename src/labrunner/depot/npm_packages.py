"""Packages of npm, and Node itself, which npm has as a package too.

Rules: no script of a package is run. What npm writes for itself (lock files, links) is taken away: it would
name the registry of this host, and two hosts would have two digests of the same files.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from labrunner.depot.carried import LIBRARIES, carry_libraries
from labrunner.depot.package_tools import InstallFailed, ask_tool, find_tool
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
    "--loglevel=warn",
)
_LOST: Final = "TAR_ENTRY_ERROR"
"""What npm calls a file that it could not write. It warns of it, and ends as if all were well."""


def fetch_npm(release: Release, tree: Path) -> None:
    """Put a release's packages into a tree. Raises InstallFailed."""
    install = release.install
    named = (install.npm or "", *install.also)
    wanted = [each if "@" in each[1:] or "$version" in each else f"{each}@$version" for each in named]
    packages = [release.fill(each) for each in wanted]
    _install(packages, tree, release.label)
    for package in packages:
        _check_version(package, tree, release.label)
    if install.node is not None:
        _bring_node(install.node, tree)


def _check_version(package: str, tree: Path, label: str) -> None:
    """Refuse a release that is another than was asked for: to npm, `1.2` is the newest of many."""
    name, _, asked = package.rpartition("@")
    if not name or ":" in name or not asked[:1].isdigit():
        return  # a folder, an address, or a range that somebody wrote as such
    facts = json.loads((tree / "node_modules" / name / "package.json").read_text(encoding="utf-8"))
    if facts["version"] != asked:
        raise InstallFailed(f"{label}: npm took {asked} for {name}@{facts['version']}; write a whole version")


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
    doing = f"installing {label} from npm"
    said = ask_tool(argv, cwd=folder, doing=doing)
    if lost := [line for line in said.splitlines() if _LOST in line]:
        raise InstallFailed(f"{doing}: npm did not write all files, and said: {lost[-1]}")
    for left in ("package.json", "package-lock.json", "node_modules/.package-lock.json"):
        (folder / left).unlink(missing_ok=True)
    remove_tree(folder / "node_modules" / ".bin")
