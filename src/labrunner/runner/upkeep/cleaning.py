"""What old runs left behind and nobody needs: found first, removed only when asked.

Rules: nothing of a live run is touched (its lock is taken for the removal); a buffer with finished results
that are not committed is paid work and never counted as left behind; committed rows, results and logs stay.
"""

import asyncio
import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final, Literal

import msgspec

from labrunner.errors import LabError, RunLocked
from labrunner.files.durable import replace
from labrunner.files.layering.layernote import LAYER, LAYER_PART
from labrunner.files.scraps import find_scraps, is_abandoned
from labrunner.files.strangers.removal import gone_name, remove, remove_if_possible, throw_away
from labrunner.files.strangers.usage import measure
from labrunner.records.encoding import canonical
from labrunner.records.seals import seal
from labrunner.runner.upkeep.strays import Stray, find_orphans, find_strays, remove_all_of, remove_strays
from labrunner.sandbox.sweeper import NETWORK
from labrunner.store.buffering.buffer import snapshot
from labrunner.store.layout import RunPaths
from labrunner.store.reading.listing import RunListing, count_results, list_runs
from labrunner.store.rows.lock import acquire, is_owned
from labrunner.store.rows.single_records import read_run, read_status

BUFFER_KEPT_S: Final = 3 * 24 * 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Leftover:
    """Something that can go."""

    what: Literal["buffer", "workspace", "container", "network", "folder"]
    run: RunPaths | None
    """None for what belongs to no run that is there."""
    paths: tuple[Path, ...]
    size: int
    whose: str = ""
    """What it belongs to, where that is no run."""
    kind: str = ""
    """Of which kind the containers are."""
    containers: tuple[str, ...] = ()
    """Containers or networks, by the names that their kind has for them."""
    waiting: int = 0
    """Containers beside these that `lab continue` goes on with: told, and never removed with the rest."""

    @property
    def owner(self) -> str:
        """Whose it is, for people."""
        return self.whose if self.run is None else self.run.root.name

    @property
    def count(self) -> int:
        """How many things it is."""
        return len(self.paths) + len(self.containers)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    """What to look for."""

    now: float
    older_than_s: float
    workspaces: bool


def find_leftovers(runs_dir: Path, sweep: Sweep) -> list[Leftover]:
    """Find what ended runs left behind."""
    return [leftover for run in _ended(runs_dir) for leftover in _of_run(run, sweep)]


def find_left_folders(runs_dir: Path) -> list[Leftover]:
    """Find folders that killed commands left beside runs, or where they would have been."""
    places = [folder for folder in (runs_dir, *runs_dir.absolute().parents[:2]) if folder.is_dir()]
    found = dict.fromkeys(path.resolve() for place in places for path in find_scraps(place))
    return [
        Leftover(
            what="folder", run=None, paths=(path,), size=_size((path,)), whose=f"{path}, of a killed command"
        )
        for path in found
    ]


def find_left_containers(runs_dir: Path, sweep: Sweep) -> list[Leftover]:
    """Find sandboxes that nothing can come of any more, and their networks, where that can be known."""
    old = [run for run in _ended(runs_dir) if sweep.now - _ended_at(run) >= sweep.older_than_s]
    orphans = asyncio.run(find_orphans(ended_before=sweep.now - sweep.older_than_s))
    strays = [*orphans, *asyncio.run(find_strays(old))]
    return [leftover for stray in strays for leftover in _as_leftovers(stray)]


def _as_leftovers(stray: Stray) -> Iterator[Leftover]:
    """Containers, then the networks that they were on."""
    networks = tuple(id for id in stray.ids if id.startswith(NETWORK))
    others = tuple(id for id in stray.ids if id not in networks)
    found = Leftover(
        what="container",
        run=stray.run,
        paths=(),
        size=0,
        kind=stray.kind,
        containers=others,
        whose=stray.whose,
        waiting=stray.waiting,
    )
    yield found
    if networks:
        yield dataclasses.replace(found, what="network", containers=networks, waiting=0)


def _ended(runs_dir: Path) -> list[RunListing]:
    return [run for run in list_runs(runs_dir) if run.state not in {"started", "unreadable"}]


def remove_leftover(leftover: Leftover) -> bool:
    """Remove it, as the owner of its run; False when somebody owns the run now."""
    if leftover.run is None:
        for path in filter(is_abandoned, leftover.paths):
            remove_if_possible(path)
        if leftover.containers:
            asyncio.run(remove_strays(leftover.kind, leftover.containers))
        return True
    try:
        with acquire(leftover.run):
            for path in leftover.paths:
                # A retry judges a workspace that is there: it must never find half of one.
                (throw_away if leftover.what == "workspace" else remove)(path)
            if leftover.containers:
                asyncio.run(remove_strays(leftover.kind, leftover.containers))
    except RunLocked:
        return False
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class Abandoned:
    """What was given up."""

    results: int
    """Finished results that were not committed: paid work."""


def count_uncommitted(paths: RunPaths) -> int:
    """How many finished results lie only in a run's buffer."""
    with snapshot(paths.buffer) as waiting:
        return sum(1 for _ in waiting)


def abandon(paths: RunPaths) -> Abandoned:
    """Throw a run's buffer away with all that is in it, as its owner. Committed rows stay."""
    lost = count_uncommitted(paths)
    with acquire(paths):
        asyncio.run(remove_all_of(paths, read_run(paths).run_id))
        for path in (*_buffer_files(paths), paths.buffered):
            remove(path)
        _write_counts(paths)
    return Abandoned(results=lost)


def _write_counts(paths: RunPaths) -> None:
    """Let the status say what is left: nobody is to look for results that were given up."""
    status = read_status(paths)
    if status is not None:
        counts = count_results(paths, status.counts.planned)
        data = canonical.encode_line(seal(msgspec.structs.replace(status, counts=counts)))
        replace(paths.status, data, point="status")


def remove_spent_buffers(runs_dir: Path, now: float) -> None:
    """Remove buffers whose time is over: called by every command that starts a run."""
    if not any(_is_old(path, now) for path in runs_dir.glob("*/buffer.sqlite")):
        return  # the usual case, without looking into every run
    for leftover in find_leftovers(runs_dir, Sweep(now=now, older_than_s=0.0, workspaces=False)):
        remove_leftover(leftover)


def _is_old(path: Path, now: float) -> bool:
    try:
        return now - path.stat().st_mtime >= BUFFER_KEPT_S
    except FileNotFoundError:
        return False


def _of_run(run: RunListing, sweep: Sweep) -> Iterator[Leftover]:
    age_s = sweep.now - _ended_at(run)
    paths = run.paths
    if age_s >= max(BUFFER_KEPT_S, sweep.older_than_s) and _is_spent(paths):
        files = tuple(path for path in _buffer_files(paths) if path.exists())
        if files:
            yield Leftover(what="buffer", run=paths, paths=files, size=_size(files))
    if sweep.workspaces and age_s >= sweep.older_than_s:
        names = ("workspace", gone_name(Path("workspace")).name, LAYER, LAYER_PART)
        folders = tuple(sorted(path for name in names for path in paths.trial_folders.glob(f"*/*/{name}")))
        if folders:
            yield Leftover(what="workspace", run=paths, paths=folders, size=_size(folders))


def _ended_at(run: RunListing) -> float:
    """When the owner ended, as far as can be known: said by the status, else its last sign of life."""
    if run.status is not None:
        said = run.status.ended_at or run.status.updated_at
        return datetime.fromisoformat(said).timestamp()
    return run.paths.root.stat().st_mtime


def _is_spent(paths: RunPaths) -> bool:
    """Whether a buffer holds no finished result that is not committed."""
    if is_owned(paths):
        return False
    try:
        with snapshot(paths.buffer) as waiting:
            return next(waiting, None) is None
    except LabError:
        return False


def _buffer_files(paths: RunPaths) -> tuple[Path, ...]:
    return tuple(paths.buffer.with_name(paths.buffer.name + end) for end in ("", "-wal", "-shm"))


def _size(paths: tuple[Path, ...]) -> int:
    """What files and folders take on the disk."""
    files = [path.lstat() for path in paths if path.is_file() and not path.is_symlink()]
    return sum(each.st_blocks * 512 for each in files) + measure(paths)
