"""Agents that are installed on this host: where each release lies, and whether it is still what it was.

Below the user's cache, `trees/DIGEST/` holds an agent's files, and `installed/NAME==VERSION-RECIPE.json`
says which tree a release is. The line is written last, so what has one is whole.
Rule: a tree whose files look untouched (sizes, times, modes) is taken as what it was when it was digested;
one that looks otherwise is digested again, and refused where that says something else.
"""

import os
import platform
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from labrunner.errors import InputError
from labrunner.experiment.agents.agent_file import InstallPart
from labrunner.experiment.folders import digest_folder
from labrunner.experiment.resolved import Folder
from labrunner.files.cache import user_cache
from labrunner.records.encoding import canonical

LAYOUT: Final = 1
"""Of what an installation makes of packages: a higher number asks for another one."""
_RELEASE: Final = re.compile(r"[0-9][A-Za-z0-9.+_!-]*")
"""Neither a tag such as `latest`, which is another release tomorrow, nor a path."""
_ARCHITECTURES: Final = {"x86_64": "x64", "amd64": "x64", "aarch64": "arm64", "arm64": "arm64"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """One release of an agent, as this host would install it."""

    name: str
    version: str
    install: InstallPart
    use: str
    """What names it on a command line: its name, or the path of its file."""

    def unfit(self) -> str | None:
        """Why this is no release; None when it is one."""
        if _RELEASE.fullmatch(self.version):
            return None
        return f"must be one release, such as 1.2.3, found '{self.version}'"

    @property
    def label(self) -> str:
        """How people call it."""
        return f"{self.name}=={self.version}"

    @property
    def request(self) -> str:
        """How it is asked for on a command line."""
        return shlex.quote(f"{self.use}=={self.version}")

    @property
    def recipe(self) -> str:
        """Digest of how it is installed."""
        return canonical.digest(["agent_v1", LAYOUT, self.version, arch(), self.install.model_dump()])

    @property
    def record_path(self) -> Path:
        """Where it is written down that it is installed."""
        return agents_cache() / "installed" / f"{self.label}-{self.recipe.removeprefix('sha256:')[:8]}.json"

    def fill(self, text: str) -> str:
        """Put version and architecture into a text of the recipe."""
        for name, value in (("version", self.version), ("arch", arch()), ("machine", platform.machine())):
            text = text.replace(f"${name}", value)
        return text


class InstalledAgent(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is written down of an installation."""

    schema_version: int = 1
    name: str
    version: str
    digest: str
    looks: str
    """Digest of what the tree looks like without being read."""
    files: int
    bytes: int
    installed_at: str

    @property
    def label(self) -> str:
        """How people write it."""
        return f"{self.name}=={self.version}"

    @property
    def tree(self) -> Path:
        """Its files."""
        return tree_path(self.digest)


def agents_cache() -> Path:
    """Where installed agents lie."""
    return user_cache("agents")


def tree_path(digest: str) -> Path:
    """Where files with that digest lie."""
    return agents_cache() / "trees" / digest.removeprefix("sha256:")[:32]


def arch() -> str:
    """The name that packages have for this machine's processor."""
    machine = platform.machine().lower()
    return _ARCHITECTURES.get(machine, machine)


def find_installed(release: Release) -> InstalledAgent | None:
    """What is written down of a release; None when it is not installed."""
    found = _read(release.record_path)
    return found if found is not None and found.tree.is_dir() else None


def list_installed() -> list[tuple[Path, InstalledAgent]]:
    """Everything that is installed, with where that is written down."""
    paths = sorted((agents_cache() / "installed").glob("*.json"))
    return [(path, found) for path in paths if (found := _read(path)) is not None]


def check_installed(found: InstalledAgent, *, anew: bool = False) -> Folder:
    """An installed agent's folder, as it was; `anew` reads all of it again. Raises InputError."""
    remedy = f"lab agents remove {found.label}, then install it again"
    try:
        is_untouched = not anew and look_at_tree(found.tree).looks == found.looks
        digest = found.digest if is_untouched else digest_folder(found.tree)
    except OSError as error:
        told = f"{found.label} can't be read: {error.strerror}"
        raise InputError(str(found.tree), f"{told}; {remedy}") from error
    if digest != found.digest:
        told = f"was {found.digest} when it was installed, and is {digest} now"
        raise InputError(str(found.tree), f"{found.label} {told}: its files were changed; {remedy}")
    return Folder(path=str(found.tree), digest=found.digest)


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeLooks:
    """A tree without its contents."""

    looks: str
    files: int
    bytes: int


def look_at_tree(tree: Path) -> TreeLooks:
    """Look at sizes, times and modes of a tree's files."""
    every = sorted(_stat_all(tree, ""))
    return TreeLooks(
        looks=canonical.digest(["looks_v1", every]), files=len(every), bytes=sum(each[1] for each in every)
    )


def _stat_all(folder: Path, prefix: str) -> Iterator[tuple[str, int, int, int]]:
    with os.scandir(folder) as found:
        for entry in found:
            if entry.name == "__pycache__":
                continue
            if entry.is_dir(follow_symlinks=False):
                yield from _stat_all(Path(entry.path), f"{prefix}{entry.name}/")
            else:
                seen = entry.stat(follow_symlinks=False)
                yield (prefix + entry.name, seen.st_size, seen.st_mtime_ns, seen.st_mode)


def _read(path: Path) -> InstalledAgent | None:
    """A line that can't be read, or is of another lab, is of nothing that can be used."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=InstalledAgent)
    except (OSError, msgspec.DecodeError):
        return None
