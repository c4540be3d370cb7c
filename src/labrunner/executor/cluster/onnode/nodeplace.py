"""Where a node keeps what it works on: parcels by what they hold, and a folder for each run.

<root>/<node>/parcels/<key>/        what was delivered, whole or not there
<root>/<node>/runs/<run>/trials/    attempts under way, and those that are not released yet
<root>/<node>/runs/<run>/standing/  how agents ended whose sandboxes end with the worker
<root>/<node>/runs/<run>/kept/      attempts whose sandbox somebody wants to look at
<root>/<node>/runs/<run>/tapes/     recorded calls that answer those of attempts under way
<root>/<node>/runs/<run>/lock       held by the one worker that may touch the run here

Rules: the root lies on the node's own disk and belongs to the worker's user alone. A worker that lost its
coordinator may still live for a moment: the next one waits for its lock, and is refused if it does not come.
"""

import asyncio
import fcntl
import os
import re
import stat
import time
from collections.abc import Collection, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from labrunner.errors import SandboxFailed
from labrunner.executor.cluster.parcels import Unpacking
from labrunner.files.filesystem import filesystem_problem
from labrunner.files.strangers.removal import remove_if_possible, remove_tree

VARIABLE: Final = "LAB_NODE_DIR"
"""Set where `ray start` is called, it says where a node works."""
PATIENCE_S: Final = 30.0
UNUSED_S: Final = 30 * 24 * 3600
"""What nobody has used for so long is swept away."""
LOCK: Final = "lock"
_LOOK_S: Final = 0.1


def find_root() -> Path:
    """Where this node works, unless it is told."""
    told = os.environ.get(VARIABLE)
    return Path(told) if told else Path(f"/var/tmp/labrunner-{os.geteuid()}")


def _name(text: str) -> str:
    """A name that is one of a folder."""
    return re.sub(r"[^A-Za-z0-9._-]", "_", text).lstrip(".") or "_"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodePlace:
    """A node's folder."""

    folder: Path

    @classmethod
    def make(cls, node: str) -> "NodePlace":
        """Make it, or find it. Raises SandboxFailed where it can't be trusted."""
        root = find_root()
        with SandboxFailed.during("node_folder", f"making {root} on node {node}"):
            root.mkdir(parents=True, exist_ok=True, mode=0o700)
            found = root.lstat()
            if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
                raise SandboxFailed(
                    "node_folder", f"{root} on node {node} is not this user's own folder; set {VARIABLE}"
                )
            if problem := filesystem_problem(root):
                raise SandboxFailed("node_folder", f"node {node}: {problem}; set {VARIABLE} to a local disk")
            place = cls(folder=root.resolve() / _name(node))
            for folder in (place.folder, place.parcels, place.runs):
                folder.mkdir(exist_ok=True)
            return place

    @property
    def parcels(self) -> Path:
        """What was delivered."""
        return self.folder / "parcels"

    @property
    def runs(self) -> Path:
        """A folder for each run."""
        return self.folder / "runs"

    def parcel(self, key: str) -> Path:
        """Where a parcel lies once it is whole."""
        return self.parcels / _name(key)

    def find(self, whereabouts: str) -> Path:
        """Where something delivered lies: a parcel's key, and for a file its name there."""
        key, _, name = whereabouts.partition("/")
        return self.parcel(key) / name if name else self.parcel(key)

    def has(self, key: str) -> bool:
        """Whether a parcel is there; it is used now."""
        try:
            os.utime(self.parcel(key))
        except FileNotFoundError:
            return False
        return True

    def sweep(self, now: float) -> None:
        """Remove what nobody has used for long, but for a run that somebody is at."""
        abandoned = [_remove_abandoned(run) for run in _find_older(self.runs, now - UNUSED_S)]
        if not all(abandoned):
            return  # who has been at a run for so long was given its parcels before
        for parcel in _find_older(self.parcels, now - UNUSED_S):
            remove_if_possible(parcel)


def _find_older(folder: Path, than: float) -> list[Path]:
    """What in a folder was used last before a time."""
    found: list[Path] = []
    for path in list(folder.iterdir()):
        with suppress(FileNotFoundError):  # another worker sweeps, too
            if path.lstat().st_mtime < than:
                found.append(path)
    return found


def _remove_abandoned(run: Path) -> bool:
    """Remove a run's folder, unless a worker is at it; whether none is."""
    try:
        lock = os.open(run / LOCK, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except (FileNotFoundError, NotADirectoryError):
        remove_if_possible(run)  # nobody was ever at it
        return True
    except OSError:
        return False  # who knows
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    else:
        remove_if_possible(run)
        return True
    finally:
        os.close(lock)


class ParcelArrival:
    """A parcel on its way into a node's folder."""

    def __init__(self, place: NodePlace, key: str, mark: str) -> None:
        """Begin beside where it will lie."""
        self._target = place.parcel(key)
        self._beside = self._target.with_name(f".{self._target.name}.{mark}")
        remove_tree(self._beside)
        self._beside.mkdir()
        self._unpacking = Unpacking(self._beside)

    def take(self, piece: bytes) -> None:
        """Take the next piece."""
        self._unpacking.take(piece)

    def finish(self) -> None:
        """Put it in place; where another worker was first, its is as good."""
        self._unpacking.finish()
        self._unpacking.close()
        try:
            self._beside.rename(self._target)
        except OSError:
            if not self._target.is_dir():
                raise
            remove_tree(self._beside)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPlace:
    """A run's folder on a node."""

    folder: Path

    @classmethod
    def make(cls, place: NodePlace, run: str) -> "RunPlace":
        """Make it, or find what earlier workers left."""
        made = cls(folder=place.runs / _name(run))
        for folder in (made.folder, made.trials, made.standing, made.kept, made.tapes):
            folder.mkdir(exist_ok=True)
        os.utime(made.folder)
        return made

    @property
    def trials(self) -> Path:
        """Attempts, as in a run's directory."""
        return self.folder / "trials"

    @property
    def standing(self) -> Path:
        """How agents ended."""
        return self.folder / "standing"

    @property
    def kept(self) -> Path:
        """Marks of attempts that stay."""
        return self.folder / "kept"

    @property
    def tapes(self) -> Path:
        """Recorded calls."""
        return self.folder / "tapes"

    def attempts(self) -> Iterable[Path]:
        """Every attempt's folder, those of cut-off tries among them."""
        return list(self.trials.glob("*/*"))

    def remove_attempts(self, spared: Collection[Path]) -> None:
        """Remove attempts' folders but these, and those that somebody wants to look at."""
        for attempt in self.attempts():
            if attempt not in spared and not self.is_kept(attempt):
                remove_if_possible(attempt)
        for trial in list(self.trials.iterdir()):
            if not any(trial.iterdir()):
                trial.rmdir()

    def keep(self, attempt: Path) -> None:
        """Have an attempt's folder stay: its sandbox is left for a look."""
        (self.kept / f"{attempt.parent.name}.{attempt.name}").touch()

    def is_kept(self, attempt: Path) -> bool:
        """Whether somebody wants to look at its sandbox."""
        return (self.kept / f"{attempt.parent.name}.{attempt.name}").exists()

    def leave(self) -> None:
        """Remove the folder if there is nothing left of the run."""
        if not any(self.trials.iterdir()):
            remove_if_possible(self.folder)

    async def lock(self, patience_s: float = PATIENCE_S) -> int:
        """Have the run's folder for this worker alone. Raises SandboxFailed when another one stays."""
        fd = os.open(self.folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        deadline = time.monotonic() + patience_s
        while True:
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() > deadline:
                    os.close(fd)
                    raise SandboxFailed(
                        "node_taken",
                        f"{self.folder} belongs to another worker that still lives; two nodes with one name "
                        f"need each its own {VARIABLE}",
                    ) from None
                await asyncio.sleep(_LOOK_S)
            else:
                return fd
