"""Containers that runs left behind: found through the engine, if one answers.

A container is left behind when nothing can come of it any more: its run has ended well, its attempt can't
be taken up, or it was kept for a look. One that `lab continue` would adopt is paid work, and is not.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from labrunner.errors import SandboxFailed
from labrunner.sandbox.marks import RunMark
from labrunner.store.layout import RunPaths
from labrunner.store.listing import RunListing

if TYPE_CHECKING:  # the engine's client is heavy, and few commands need it
    from labrunner.sandbox.docker.engine import Engine


@dataclass(frozen=True, slots=True, kw_only=True)
class Stray:
    """Containers of one run that can go."""

    run: RunPaths
    ids: tuple[str, ...]
    waiting: int = 0
    """How many others wait for `lab continue`: paid work, which only giving the run up removes."""


async def find_strays(runs: Iterable[RunListing]) -> list[Stray]:
    """Find what is left of these runs; nothing where no engine answers."""
    from labrunner.sandbox.docker.engine import Engine
    from labrunner.sandbox.docker.labels import PLACE

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


async def _of_run(engine: "Engine", mark: RunMark, run: RunListing) -> Stray:
    from labrunner.sandbox.docker.survivors import find_left, judge, list_own

    own = [each.id for each, _ in await list_own(engine, mark, kept=True)]
    alive = set[str]()
    if run.state != "success":
        survivors = [judge(left) for left in await find_left(engine, mark)]
        alive = {id for each in survivors if each.is_adoptable(repeatable_grader=True) for id in each.ids}
    ids = tuple(id for id in own if id not in alive)
    return Stray(run=run.paths, ids=ids, waiting=len(own) - len(ids))


async def remove_strays(ids: tuple[str, ...]) -> None:
    """Remove containers."""
    from labrunner.sandbox.docker.engine import Engine
    from labrunner.sandbox.docker.removal import Removals

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
