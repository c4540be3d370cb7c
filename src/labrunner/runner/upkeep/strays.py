"""Containers that runs left behind: found through the engine, if one answers.

A container is left behind when nothing can come of it any more: its run has ended well, its attempt can't
be taken up, or it was kept for a look. One that `lab continue` would adopt is paid work, and is not.
"""

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from labrunner.errors import SandboxFailed
from labrunner.files.host import machine_id
from labrunner.sandbox.marks import RunMark
from labrunner.sandbox.paths import AGENTLAB
from labrunner.store.layout import RunPaths
from labrunner.store.reading.listing import RunListing

if TYPE_CHECKING:  # the engine's client is heavy, and few commands need it
    from labrunner.sandbox.docker.engine.client import Engine
    from labrunner.sandbox.docker.engine.replies import Listed

RUN_ABOVE: Final = 2
"""Which of an attempt's parents is its run: RUN/trials/TRIAL/ATTEMPT."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stray:
    """Containers of one run that can go."""

    run: RunPaths
    ids: tuple[str, ...]
    waiting: int = 0
    """How many others wait for `lab continue`: paid work, which only giving the run up removes."""


async def find_strays(runs: Iterable[RunListing]) -> list[Stray]:
    """Find what is left of these runs; nothing where no engine answers."""
    from labrunner.sandbox.docker.engine.client import Engine
    from labrunner.sandbox.docker.engine.labels import PLACE

    engine = Engine()
    marks = {mark.place: (mark, run) for run in runs for mark in [RunMark.of(run.paths.root, run.run_id)]}
    try:
        places = {each.labels[PLACE] for each in await engine.list(PLACE)}
        found = [await _of_run(engine, *marks[place]) for place in sorted(places & set(marks))]
    except SandboxFailed:
        return []
    finally:
        await engine.close()
    return [stray for stray in found if stray.ids or stray.waiting]


@dataclass(frozen=True, slots=True, kw_only=True)
class Orphan:
    """Ended containers of a run whose folder is gone from this machine."""

    whose: str
    ids: tuple[str, ...]


async def find_orphans(*, ended_before: float) -> list[Orphan]:
    """Find ended containers of runs of this machine that are not there any more: nobody can go on with them.

    A run that was moved is gone, too: its containers look for their folders where they were.
    """
    from labrunner.sandbox.docker.engine.client import Engine
    from labrunner.sandbox.docker.engine.labels import PLACE

    engine, found = Engine(), dict[str, list[str]]()
    try:
        for each in await engine.list(PLACE):
            whose = await _lost_run(engine, each)
            if whose is not None and each.created_at <= ended_before:
                found.setdefault(whose, []).append(each.id)
    except SandboxFailed:
        return []
    finally:
        await engine.close()
    return [Orphan(whose=whose, ids=tuple(ids)) for whose, ids in found.items()]


async def _lost_run(engine: "Engine", listed: "Listed") -> str | None:
    """The run of an ended container, in words, if it was this machine's and its folder is gone; else None."""
    from labrunner.sandbox.docker.engine.engine_errors import EngineRefused
    from labrunner.sandbox.docker.engine.labels import PLACE, PREFIX

    if listed.labels[PLACE].split(":")[0] != machine_id():
        return None
    try:
        state = await engine.look(listed.id)
    except EngineRefused:
        return None  # gone meanwhile
    attempt = state.mounts.get(AGENTLAB)
    if state.is_alive or attempt is None:
        return None
    root, run_id = Path(attempt).parents[RUN_ABOVE], listed.labels.get(f"{PREFIX}run", "")
    with suppress(OSError):
        if RunMark.of(root, run_id).place == listed.labels[PLACE]:
            return None
    return f"run {run_id} of {root}, which is gone"


async def _of_run(engine: "Engine", mark: RunMark, run: RunListing) -> Stray:
    from labrunner.sandbox.docker.attempt.survivors import find_left, judge, list_own

    own = [each.id for each, _ in await list_own(engine, mark, kept=True)]
    alive = set[str]()
    if run.state != "success":
        survivors = [judge(left) for left in await find_left(engine, mark)]
        alive = {id for each in survivors if each.is_adoptable(repeatable_grader=True) for id in each.ids}
    ids = tuple(id for id in own if id not in alive)
    return Stray(run=run.paths, ids=ids, waiting=len(own) - len(ids))


async def remove_strays(ids: tuple[str, ...]) -> None:
    """Remove containers."""
    from labrunner.sandbox.docker.attempt.disposal import Removals
    from labrunner.sandbox.docker.engine.client import Engine

    engine = Engine()
    try:
        await Removals(engine).remove_all(ids)
    finally:
        await engine.close()


async def remove_all_of(paths: RunPaths, run_id: str) -> int:
    """Remove every container of a run that is given up; how many there were."""
    from labrunner.sandbox.docker.maker import DockerMaker

    maker = DockerMaker()
    try:
        return await maker.reap(RunMark.of(paths.root, run_id), frozenset(), kept=True)
    except SandboxFailed:
        return 0
    finally:
        await maker.close()
