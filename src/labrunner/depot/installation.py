"""Installs an agent's release, and removes it.

Rules: made in a folder that nobody looks at, digested, put in its place by a rename, and only then written
down: what is known as installed is whole. Who is killed on the way leaves a folder that the next one
removes, and what the package manager has fetched by then is in its own cache. Nothing is fetched when a
release is there. What is removed is first moved away whole: a tree that has its name is whole, too. One
process at a time installs a release; nothing is removed that a run is using.
"""

import errno
import os
import time
from contextlib import nullcontext, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import msgspec

from labrunner.depot.headway import Tell, telling_progress
from labrunner.depot.launchers import write_launchers
from labrunner.depot.npm_packages import fetch_npm
from labrunner.depot.python_packages import fetch_python
from labrunner.errors import LabError
from labrunner.experiment.agents.installed import (
    InstalledAgent,
    Release,
    find_installed,
    list_installed,
    look_at_tree,
    tree_path,
)
from labrunner.experiment.folders import digest_folder
from labrunner.files.draft import draft_beside, put_in_place, remove_drafts
from labrunner.files.durable import put_whole, storing, sync_folder
from labrunner.files.leases import having_alone, taking_turns
from labrunner.files.points import reach

_ABANDONED_S: Final = 60.0
"""A folder that nobody holds after this time is of somebody who was killed, not of one who is about to."""
_WAITING: Final = "waiting for another process that is installing {}"


class InUse(LabError):
    """What is to be removed is in use."""


def install(release: Release, tell: Tell) -> InstalledAgent:
    """Install a release, unless it is there. Raises InstallFailed, StoreError."""
    found = find_installed(release)
    if found is not None:
        return found
    record = release.record_path
    with storing("installing into", record.parents[1]):
        record.parent.mkdir(parents=True, exist_ok=True)
        with taking_turns(record.with_suffix(".lock"), lambda: tell(_WAITING.format(release.label))):
            return find_installed(release) or _install(release, tell)


def _install(release: Release, tell: Tell) -> InstalledAgent:
    began = time.monotonic()
    package = release.install.npm or release.install.pypi or ""
    tell(f"installing {release.label} ({release.fill(package)})")
    trees = release.record_path.parents[1] / "trees"
    remove_drafts(trees, before=time.time() - _ABANDONED_S)
    with draft_beside(trees / release.name) as draft:
        tree = draft / "tree"
        tree.mkdir()
        with telling_progress(release.label, tree, tell):
            (fetch_npm if release.install.npm is not None else fetch_python)(release, tree)
            write_launchers(release, tree)
            _open_up(tree)
            found = _put_in_place(release, tree)
    took = time.monotonic() - began
    tell(f"installed {release.label}: {found.files:,} files, {found.bytes / 1e6:,.0f} MB, in {took:.0f} s")
    return found


def remove(path: Path, found: InstalledAgent) -> None:
    """Remove a release; its files go when no other release has the same. Raises InUse, StoreError."""
    others = [other for place, other in list_installed() if place != path]
    is_last = all(other.digest != found.digest for other in others) and found.tree.is_dir()
    with storing("removing", path), having_alone(found.tree) if is_last else nullcontext(True) as is_free:
        if not is_free:
            raise InUse(f"removing {found.label}: a run is using it; try again when that has ended")
        path.unlink(missing_ok=True)
        sync_folder(path.parent)
        reach("depot.forgotten")
        if is_last:
            _remove_tree(found.tree)


def _remove_tree(tree: Path) -> None:
    with draft_beside(tree) as draft:
        with suppress(FileNotFoundError):
            tree.rename(draft / "tree")
        reach("depot.moved")


def _put_in_place(release: Release, tree: Path) -> InstalledAgent:
    digest = digest_folder(tree)
    place = tree_path(digest)
    with storing("putting in place", place):
        os.sync()  # thousands of small files: one sync of everything costs less than one of each
        _give_name(tree, place, digest)
        sync_folder(place.parent)
        looks = look_at_tree(place)
        found = InstalledAgent(
            name=release.name,
            version=release.version,
            digest=digest,
            looks=looks.looks,
            files=looks.files,
            bytes=looks.bytes,
            installed_at=datetime.now(UTC).isoformat(timespec="seconds"),
        )
        release.record_path.parent.mkdir(parents=True, exist_ok=True)
        put_whole(release.record_path, msgspec.json.encode(found))
    return found


def _give_name(tree: Path, place: Path, digest: str) -> None:
    """Put a tree in its place; one that is there and is the same stays, and any other is replaced."""
    try:
        tree.rename(place)
    except OSError as error:
        if error.errno not in (errno.EEXIST, errno.ENOTEMPTY):
            raise
        if digest_folder(place) != digest:
            put_in_place(tree, place, replaces=True)


def _open_up(tree: Path) -> None:
    """Let every user read: an agent may be another one in its container."""
    for folder, _, files in os.walk(tree):
        Path(folder).chmod(0o755)
        for name in files:
            path = Path(folder, name)
            if not path.is_symlink():
                path.chmod(0o755 if path.stat().st_mode & 0o100 else 0o644)
