"""A network for each run, over which its containers come to the gateway where nobody may plant doors in them.

Joining a container's network namespace takes root on the engine's host. Who is only a user of the engine's
socket has a network made instead: internal, so that it leads nowhere but to an address of this host, and with
its containers kept from each other. The gateway listens on that address.

Rules: a network is known by the labels of its very run, like a container: whoever owns the run next finds it.
It stays while a container of the run is left, because one that is started again must find it. Somebody else's
`docker network prune` takes away what no container is on: so it is looked for each time, and made again.
"""

import asyncio
import hashlib
import logging
import os
import re
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from labrunner.errors import SandboxFailed
from labrunner.files.host import process_mark
from labrunner.sandbox.docker.engine.client import Engine
from labrunner.sandbox.docker.engine.engine_errors import EngineRefused
from labrunner.sandbox.docker.engine.labels import PLACE, PREFIX, PROBE, is_orphan
from labrunner.sandbox.docker.engine.reconnect import outlast
from labrunner.sandbox.docker.engine.replies import EngineFacts, NetworkFacts
from labrunner.sandbox.door import ReachWay, SandboxSpec
from labrunner.sandbox.marks import RunMark

ROOT: Final = f"{PREFIX}root"
"""The label that says where the run's directory is."""
RUN: Final = f"{PREFIX}run"
RUN_ABOVE: Final = 2
"""Which of an attempt's parents is its run: RUN/trials/TRIAL/ATTEMPT."""
_APART: Final = {"com.docker.network.bridge.enable_icc": "false"}
_IN_USE: Final = 403

_log = logging.getLogger("labrunner.docker")


def find_way(engine: EngineFacts) -> ReachWay:
    """How containers come to their doors: planted by who is root, or has the engine for himself."""
    return "planted" if os.geteuid() == 0 or engine.is_rootless else "bridge"


class RunNetworks:
    """The networks of one maker's runs; its probes share one."""

    def __init__(self, engine: Engine) -> None:
        """Make none yet."""
        self._engine = engine
        self._probing: NetworkFacts | None = None
        self._taken: set[RunMark] = set()
        self.rest()

    def rest(self) -> None:
        """Let go of the event loop."""
        self._making = asyncio.Lock()

    async def take(self, spec: SandboxSpec) -> NetworkFacts:
        """The network of an attempt's run: the one that is there, or a new one. Raises SandboxFailed."""
        async with self._making:
            if spec.mark is None:
                self._probing = await outlast(self._find_probing) or await self._make_for_probes()
                return self._probing
            run, root = spec.mark.run, spec.folders.root.parents[RUN_ABOVE]
            self._taken.add(run)
            return await outlast(lambda: self._find(run)) or await self._make_for(run, root)

    async def remove(self, run: RunMark) -> None:
        """Remove the network of a run; one that is in use stays. Raises SandboxFailed."""
        self._taken.discard(run)
        if (found := await self._find(run)) is not None:
            await remove_network(self._engine, found.id)

    async def remove_orphans(self) -> None:
        """Remove those of probes whose process is gone. Raises SandboxFailed."""
        for each in await self._engine.networks(PROBE):
            if is_orphan(each.labels):
                await remove_network(self._engine, each.id)

    async def close(self) -> None:
        """Remove those that no container needs; whoever owns a run next finds the others."""
        probing, self._probing = self._probing, None
        with suppress(SandboxFailed):  # what can't be removed now is found later
            if probing is not None:
                await remove_network(self._engine, probing.id)
            for run in list(self._taken):
                if not await self._engine.list(f"{PLACE}={run.place}"):
                    await self.remove(run)
        self._taken.clear()

    async def _find(self, run: RunMark) -> NetworkFacts | None:
        found = await self._engine.networks(f"{PLACE}={run.place}")
        return next((each for each in found if each.labels.get(RUN) == run.run_id), None)

    async def _find_probing(self) -> NetworkFacts | None:
        """The network of our own probes; None when there is none yet, or none any more."""
        if (known := self._probing) is None:
            return None
        return next((each for each in await self._engine.networks(PROBE) if each.id == known.id), None)

    async def _make_for(self, run: RunMark, root: Path) -> NetworkFacts:
        word = re.sub(r"[^A-Za-z0-9_.-]+", "-", run.run_id)[:60]
        name = f"lab-{word}-{hashlib.sha256(run.place.encode()).hexdigest()[:12]}"
        return await self._make(name, {PLACE: run.place, RUN: run.run_id, ROOT: str(root)})

    async def _make_for_probes(self) -> NetworkFacts:
        return await self._make(f"lab-probe-{os.urandom(6).hex()}", {PROBE: process_mark()})

    async def _make(self, name: str, labels: dict[str, str]) -> NetworkFacts:
        config: dict[str, Any] = {
            "Name": name,
            "Driver": "bridge",
            "Internal": True,
            "Options": _APART,
            "Labels": labels,
            "CheckDuplicate": True,
        }
        try:
            made = await outlast(lambda: self._engine.make_network(config))
        except EngineRefused as refusal:
            told = f"{refusal}; where addresses are used up, `docker network prune` frees some"
            raise SandboxFailed("network", told) from refusal
        if not made.address:
            await remove_network(self._engine, made.id)
            raise SandboxFailed("network", f"the engine gave this host no address in network {name}")
        return made


async def remove_network(engine: Engine, network: str) -> None:
    """Remove a network, unless it is in use. Raises SandboxFailed."""
    try:
        await engine.remove_network(network)
    except EngineRefused as refusal:
        if refusal.status != _IN_USE:
            raise
        _log.warning("network %s could not be removed: %s", network[:12], refusal)
