"""Containers that runs left behind: found through the engine, if one answers."""

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from labrunner.errors import SandboxFailed
from labrunner.files.host import machine_id
from labrunner.sandbox.docker.attempt.disposal import Removals
from labrunner.sandbox.docker.attempt.survivors import find_left, judge, list_own
from labrunner.sandbox.docker.engine.client import Engine
from labrunner.sandbox.docker.engine.engine_errors import EngineRefused
from labrunner.sandbox.docker.engine.labels import PLACE, PREFIX
from labrunner.sandbox.docker.engine.replies import Listed
from labrunner.sandbox.docker.maker import DockerMaker
from labrunner.sandbox.marks import RunMark
from labrunner.sandbox.paths import AGENTLAB
from labrunner.sandbox.sweeper import Orphans, Strays

RUN_ABOVE: Final = 2
"""Which of an attempt's parents is its run: RUN/trials/TRIAL/ATTEMPT."""


class DockerSweeper:
    """Sweeps the engine of this machine; each call has a connection of its own."""

    async def find_strays(self, runs: Mapping[RunMark, bool]) -> Mapping[RunMark, Strays]:
        """Find what is left of these runs; nothing where no engine answers."""
        engine = Engine()
        marks = {mark.place: mark for mark in runs}
        try:
            places = {each.labels[PLACE] for each in await engine.list(PLACE)}
            left = [marks[place] for place in sorted(places & set(marks))]
            return {mark: await _of_run(engine, mark, is_over=runs[mark]) for mark in left}
        except SandboxFailed:
            return {}
        finally:
            await engine.close()

    async def find_orphans(self, *, ended_before: float) -> tuple[Orphans, ...]:
        """Find ended containers of runs of this machine that are not there any more: nobody can go on.

        A run that was moved is gone, too: its containers look for their folders where they were.
        """
        engine, found = Engine(), dict[str, list[str]]()
        try:
            for each in await engine.list(PLACE):
                whose = await _lost_run(engine, each)
                if whose is not None and each.created_at <= ended_before:
                    found.setdefault(whose, []).append(each.id)
        except SandboxFailed:
            return ()
        finally:
            await engine.close()
        return tuple(Orphans(whose=whose, ids=tuple(ids)) for whose, ids in found.items())

    async def remove(self, ids: tuple[str, ...]) -> None:
        """Remove containers."""
        engine = Engine()
        try:
            await Removals(engine).remove_all(ids)
        finally:
            await engine.close()

    async def remove_all_of(self, run: RunMark) -> int:
        """Remove every container of a run that is given up; how many there were."""
        maker = DockerMaker()
        try:
            return await maker.reap(run, frozenset(), kept=True)
        except SandboxFailed:
            return 0
        finally:
            await maker.close()


async def _lost_run(engine: Engine, listed: Listed) -> str | None:
    """The run of an ended container, in words, if it was this machine's and its folder is gone; else None."""
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


async def _of_run(engine: Engine, mark: RunMark, *, is_over: bool) -> Strays:
    own = [each.id for each, _ in await list_own(engine, mark, kept=True)]
    alive = set[str]()
    if not is_over:
        survivors = [judge(left) for left in await find_left(engine, mark)]
        alive = {id for each in survivors if each.is_adoptable(repeatable_grader=True) for id in each.ids}
    ids = tuple(id for id in own if id not in alive)
    return Strays(ids=ids, waiting=len(own) - len(ids))
