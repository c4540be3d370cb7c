"""Containers and networks that runs left behind: found through the engine, if one answers."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from labrunner.errors import SandboxFailed
from labrunner.files.host import machine_id
from labrunner.sandbox.docker.attempt.disposal import Removals
from labrunner.sandbox.docker.attempt.survivors import find_left, judge, list_own
from labrunner.sandbox.docker.engine.client import Engine
from labrunner.sandbox.docker.engine.engine_errors import EngineRefused
from labrunner.sandbox.docker.engine.labels import PLACE, PREFIX, PROBE, is_orphan
from labrunner.sandbox.docker.engine.replies import Listed, NetworkFacts
from labrunner.sandbox.docker.maker import DockerMaker
from labrunner.sandbox.docker.networking.run_networks import ROOT, RUN_ABOVE, remove_network
from labrunner.sandbox.marks import RunMark
from labrunner.sandbox.paths import AGENTLAB
from labrunner.sandbox.sweeper import NETWORK, Orphans, Strays

KILLED: Final = "a command of lab that was killed"
"""Whose probes and shells are that nobody has removed."""


class DockerSweeper:
    """Sweeps the engine of this machine; each call has a connection of its own."""

    async def find_strays(self, runs: Mapping[RunMark, bool]) -> Mapping[RunMark, Strays]:
        """Find what is left of these runs; nothing where no engine answers."""
        engine = Engine()
        marks = {mark.place: mark for mark in runs}
        try:
            places = {each.labels[PLACE] for each in await engine.list(PLACE)}
            places |= {each.labels[PLACE] for each in await engine.networks(PLACE)}
            left = [marks[place] for place in sorted(places & set(marks))]
            return {mark: await _of_run(engine, mark, is_over=runs[mark]) for mark in left}
        except SandboxFailed:
            return {}
        finally:
            await engine.close()

    async def find_orphans(self, *, ended_before: float) -> tuple[Orphans, ...]:
        """Find what is left of runs of this machine that are not there any more: nobody can go on.

        A run that was moved is gone, too: its containers look for their folders where they were. A network
        stays for as long as a container of its run does.
        """
        engine, found, inhabited = Engine(), dict[str, list[str]](), set[str]()
        try:
            for each in await engine.list(PLACE):
                whose = await _lost_run(engine, each)
                if whose is not None and each.created_at <= ended_before:
                    found.setdefault(whose, []).append(each.id)
                else:
                    inhabited.add(each.labels[PLACE])
            for each in await engine.list(PROBE):
                if is_orphan(each.labels) and each.created_at <= ended_before:
                    found.setdefault(KILLED, []).append(each.id)
            for network in await engine.networks(PLACE):
                whose = _lost_owner(network)
                is_old = network.created_at <= ended_before
                if whose is not None and is_old and network.labels[PLACE] not in inhabited:
                    found.setdefault(whose, []).append(f"{NETWORK}{network.id}")
        except SandboxFailed:
            return ()
        finally:
            await engine.close()
        return tuple(Orphans(whose=whose, ids=tuple(ids)) for whose, ids in found.items())

    async def remove(self, ids: tuple[str, ...]) -> None:
        """Remove containers, then networks."""
        engine = Engine()
        try:
            await Removals(engine).remove_all([id for id in ids if not id.startswith(NETWORK)])
            for id in ids:
                if id.startswith(NETWORK):
                    await remove_network(engine, id.removeprefix(NETWORK))
        finally:
            await engine.close()

    async def remove_all_of(self, run: RunMark) -> int:
        """Remove all containers of a run that is given up, and its network; how many containers it had."""
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
    return _find_loss(Path(attempt).parents[RUN_ABOVE], listed.labels)


def _lost_owner(network: NetworkFacts) -> str | None:
    """The run of a network, in words, if it was this machine's and its folder is gone; else None."""
    if network.labels[PLACE].split(":")[0] != machine_id() or ROOT not in network.labels:
        return None
    return _find_loss(Path(network.labels[ROOT]), network.labels)


def _find_loss(root: Path, labels: Mapping[str, str]) -> str | None:
    """Whose something is, in words, if the run that its labels name is not in this folder any more."""
    run_id = labels.get(f"{PREFIX}run", "")
    try:
        is_there = RunMark.of(root, run_id).place == labels[PLACE]
    except (FileNotFoundError, NotADirectoryError):
        is_there = False
    except OSError:
        return None  # another user's, perhaps: what can't be looked at is not known to be gone
    return None if is_there else f"run {run_id} of {root}, which is gone"


async def _of_run(engine: Engine, mark: RunMark, *, is_over: bool) -> Strays:
    own = [each.id for each, _ in await list_own(engine, mark, kept=True)]
    alive = set[str]()
    if not is_over:
        survivors = [judge(left) for left in await find_left(engine, mark)]
        alive = {id for each in survivors if each.is_adoptable(repeatable_grader=True) for id in each.ids}
    ids = tuple(id for id in own if id not in alive)
    networks = () if alive else await engine.networks(f"{PLACE}={mark.place}")
    names = tuple(f"{NETWORK}{each.id}" for each in networks)
    return Strays(ids=(*ids, *names), waiting=len(own) - len(ids))
