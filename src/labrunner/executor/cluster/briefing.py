"""What every worker of a run is told and given before it begins."""

import asyncio
import hashlib
import secrets
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from labrunner.executor.cargo import Cargo
from labrunner.executor.cluster.delivery import bundle, find_parcels, pack_experiment
from labrunner.executor.cluster.parcels import pack, pack_files
from labrunner.executor.cluster.rayport import RayWorker
from labrunner.executor.cluster.tidings import CarrierTold, Charge, decode, encode
from labrunner.executor.door import PREFLIGHT
from labrunner.experiment.schedule import Schedule
from labrunner.gateway.recording.awaycalls import AWAY
from labrunner.gateway.recording.calljournal import BODIES, CALLS
from labrunner.store.buffering.transcripts import TRANSCRIPT
from labrunner.trial.assignment import Assignment, AttemptScene, TrialContext
from labrunner.trial.tapes import find_waiting_tapes

TAPED: Final = (CALLS, BODIES, TRANSCRIPT)
"""What of a recorded attempt answers another one's calls."""
Pieces = Callable[[], Iterator[bytes]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Briefing:
    """What every worker of a run is told, and what is delivered to it first."""

    charge: Charge
    parcels: dict[str, Pieces]
    secrets: Mapping[str, str]

    @classmethod
    def of(cls, context: TrialContext, cargo: Cargo | None = None) -> "Briefing":
        """Look at everything that the experiment names, and at what its own code needs."""
        whole, named = pack_experiment(context.experiment), find_parcels(context.experiment)
        every = [whole, *named.values()]
        carrier = None
        if cargo is not None:
            every.append(bundle(cargo.files))
            carrier = CarrierTold(name=cargo.carrier, words=cargo.words, parcel=every[-1].key)
        charge = Charge(
            run_id=context.run_id,
            place=_name_place(context),
            node="",
            experiment=whole.key,
            parcels={path: parcel.whereabouts for path, parcel in named.items()},
            planned=len(Schedule.of(context.experiment)),
            carrier=carrier,
        )
        known = {**_choose_secrets(context), **({} if cargo is None else cargo.secrets)}
        return cls(charge=charge, parcels={each.key: each.pieces for each in every}, secrets=known)

    async def deliver(self, worker: RayWorker) -> None:
        """Send what a node lacks."""
        for key in decode(await worker.call("lacks", encode(sorted(self.parcels))), list[str]):
            await _send(self.parcels[key], partial(worker.call, "receive", key))


async def send_folder(worker: RayWorker, assignment: Assignment, root: Path) -> None:
    """Send the folder of an attempt that is to be gone on with elsewhere."""
    whose = encode(assignment)
    await _send(lambda: pack(root, {AWAY}), partial(worker.call, "receive_folder", whose))


async def send_tapes(worker: RayWorker, scene: AttemptScene) -> None:
    """Send the recorded calls that answer an attempt's, where its run replays another one."""
    if scene.context.experiment.policy.replay is None:
        return
    files = {
        f"{number}/{name}": path
        for number, folder in enumerate(find_waiting_tapes(scene))
        for name in TAPED
        if (path := folder / name).exists()
    }
    await _send(lambda: pack_files(files), partial(worker.call, "receive_tapes", encode(scene.assignment)))


async def _send(pieces: Pieces, give: Callable[[bytes | None], Awaitable[bytes]]) -> None:
    """Send pieces one after another, and say that there are no more."""
    left = await asyncio.to_thread(pieces)
    while (piece := await asyncio.to_thread(next, left, None)) is not None:
        await give(piece)
    await give(None)


def _choose_secrets(context: TrialContext) -> dict[str, str]:
    """What attempts may need: of this process's environment nothing else leaves this machine."""
    keys = (entry.key for entry in context.experiment.models if entry.key is not None)
    names = (*context.experiment.secrets, *keys)
    return {name: context.secrets[name] for name in names if name in context.secrets}


def _name_place(context: TrialContext) -> str:
    """The run's directory in one word; who only looks has a word that nobody else has."""
    place = secrets.token_hex(16) if context.run_id == PREFLIGHT else context.mark().place
    return hashlib.sha256(place.encode()).hexdigest()[:16]
