"""What a node does for a run: it carries attempts out as one machine does, in a folder of its own.

Rules: it keeps nothing that a run needs: what matters is told to the coordinator, and where its sandboxes end
with the worker it remembers how agents ended, so that the next worker can stand where this one stood.
"""

import asyncio
import os
import platform
import time
from collections.abc import AsyncIterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Final

import msgspec

from labrunner.executor.cluster.delivery import read_experiment, relocate
from labrunner.executor.cluster.onnode.broughtcode import bring_carrier
from labrunner.executor.cluster.onnode.nodecall import NodeCall
from labrunner.executor.cluster.onnode.nodefunds import NodeFunds
from labrunner.executor.cluster.onnode.nodeplace import VARIABLE, NodePlace, RunPlace
from labrunner.executor.cluster.parcels import Unpacking
from labrunner.executor.cluster.tidings import AttemptOrder, Begun, Charge
from labrunner.executor.diskspace import check_disk
from labrunner.executor.door import Discard, Executor
from labrunner.executor.headcount import count_places
from labrunner.executor.local import LocalExecutor
from labrunner.experiment.schedule import Slot
from labrunner.files.durable import put_whole
from labrunner.files.host import boot_id
from labrunner.files.strangers.masking import make_masker
from labrunner.files.strangers.removal import remove_if_possible, remove_tree
from labrunner.gateway.process.control import Lend
from labrunner.records.barrier import BarrierNote
from labrunner.records.completion import Completion
from labrunner.sandbox import registry
from labrunner.sandbox.door import Check, Survivor
from labrunner.trial.assignment import Assignment, Notes, TrialContext, set_scene
from labrunner.trial.ledger import stand_at_barrier
from labrunner.trial.tapes import find_delivery

BLOCKING_THREADS: Final = 32
NOWHERE: Final = Slot(schedule_idx=0, variant_idx=0, task_idx=0, repl_idx=0)
"""Stands for a slot where nobody asks for it."""


class StandingNote(msgspec.Struct, frozen=True, kw_only=True):
    """How the agent of an attempt ended whose sandbox ends with its worker."""

    trial_id: str
    attempt: int
    note: BarrierNote
    grader_started: bool = False


_standing: Final = msgspec.json.Decoder(StandingNote)


class NodeWork:
    """A run's work on one node."""

    def __init__(
        self, place: RunPlace, context: TrialContext, begun: Begun, lock: int, carrier: Executor | None = None
    ) -> None:
        """Take what `begin` found, and who carries attempts out if it is somebody else's code."""
        self.begun = begun
        self._place = place
        self._context = context
        self._lock = lock
        self._has_carrier = carrier is not None
        self._funds = NodeFunds()
        self._own: LocalExecutor | None = None
        if carrier is None:  # beside one it is not made: it refuses tasks without a sandbox
            carrier = self._own = LocalExecutor(context, registry.remember(), self._funds.hear)
        self._local = carrier
        self._masker = make_masker(context.secrets)
        self._calls: dict[str, NodeCall] = {}
        self._under_way: dict[str, Path] = {}
        """Folders of attempts that this worker is at."""
        self._remembered: set[str] = set()
        """Attempts of this worker that are not released, by token: how their agents ended may be noted."""
        self._has_rebooted = _note_boot(place)

    @classmethod
    async def begin(cls, charge: Charge, place: NodePlace, secrets: Mapping[str, str]) -> "NodeWork":
        """Begin to work for a run: everything that it needs has been delivered."""
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(BLOCKING_THREADS))
        run = await asyncio.to_thread(RunPlace.make, place, f"{charge.run_id}-{charge.place}")
        lock = await run.lock()
        await asyncio.to_thread(place.sweep, time.time())
        written = await asyncio.to_thread(read_experiment, place.parcel(charge.experiment))
        here = {path: place.find(there) for path, there in charge.parcels.items()}
        experiment = relocate(written, here)
        context = TrialContext(
            experiment=experiment,
            run_id=charge.run_id,
            trials_dir=run.trials.resolve(),
            host=platform.node(),
            secrets=secrets,
            node=charge.node,
            tapes=run.tapes.resolve(),
        )
        asked = experiment.policy.executor.per_node
        places = count_places(experiment, charge.planned) if asked == "auto" else asked
        carrier = await asyncio.to_thread(bring_carrier, charge, place, run, context)
        return cls(run, context, Begun(places=places, trials_dir=str(context.trials_dir)), lock, carrier)

    async def preflight(self) -> tuple[Check, ...]:
        """Whether attempts can be carried out here."""
        wanted_gb = self._context.experiment.policy.min_free_disk_gb
        disk = await asyncio.to_thread(check_disk, self._place.folder, wanted_gb, f"set {VARIABLE}")
        return (disk, *await self._local.preflight())

    def call(self, order: AttemptOrder) -> NodeCall:
        """An attempt, ready to be carried out."""
        token, folder = order.assignment.token, set_scene(self._context, order.assignment).folders.root

        async def carry_out(notes: Notes) -> Completion:
            # What code that was delivered has in its memory ends with us: nobody can stand there.
            is_remembered = self._has_carrier or self._local.outlives_runner(order.assignment)
            remembering = notes if is_remembered else self._remember(order, notes)
            return await self._local.carry_out(order.assignment, remembering, order.survivor)

        self._under_way[token] = folder
        self._remembered.add(token)
        keep = self._context.experiment.policy.keep.workspace
        return self._calls.setdefault(token, NodeCall(carry_out, folder, keep, self._masker))

    def forget(self, token: str) -> None:
        """An attempt has been told to its end."""
        self._calls.pop(token, None)
        self._under_way.pop(token, None)

    def acknowledge(self, token: str, seq: int) -> None:
        """A note has been heard."""
        if (call := self._calls.get(token)) is not None:
            call.acknowledge(seq)

    async def cancel(self, token: str) -> None:
        """End an attempt, which nobody will go on with."""
        if (call := self._calls.get(token)) is not None:
            await call.cancel()
            self._stop_remembering(token)

    def statements(self) -> AsyncIterator[bytes]:
        """How the gateway here stands with the run's funds."""
        return self._funds.messages(self._own, self._context.trials_dir)

    async def lend(self, lend: Lend) -> None:
        """Tell the gateway here how the run's funds stand."""
        if self._own is not None:
            await self._own.lend(lend)

    async def release(self, assignment: Assignment, drop: Discard) -> None:
        """Throw away what is left of an attempt here: what stays of it lies where the run does."""
        await self._local.release(assignment, replace(drop, workspace=drop.sandbox, logs=drop.sandbox))
        folder = set_scene(self._context, assignment).folders.root
        await asyncio.to_thread(remove_if_possible, find_delivery(self._place.tapes, assignment))
        self._stop_remembering(assignment.token)
        if drop.sandbox:
            await asyncio.to_thread(remove_if_possible, folder)
        else:
            await asyncio.to_thread(self._place.keep, folder)

    async def survivors(self) -> tuple[Survivor, ...]:
        """What an earlier worker of this run left here, that can be gone on with."""
        found = await self._local.survivors()
        known = {survivor.token for survivor in found}
        standing = [each for each in await asyncio.to_thread(self._find_standing) if each.token not in known]
        return tuple(each for each in (*found, *standing) if self._can_be_trusted(each))

    async def reap(self, keep: frozenset[str]) -> int:
        """Remove what earlier workers left, but what is to be gone on with."""
        kept = [each for each in await self.survivors() if each.token in keep] if keep else []
        removed = await self._local.reap(keep)
        spared = {self._context.trials_dir / each.trial_id / str(each.attempt) for each in kept}
        spared |= set(self._under_way.values())
        await asyncio.to_thread(self._place.remove_attempts, spared)
        for path in list(self._place.standing.iterdir()):
            if path.stem not in keep and path.stem not in self._calls:
                path.unlink(missing_ok=True)
        return removed

    def take_folder(self, assignment: Assignment) -> Unpacking:
        """Make room for an attempt's folder that comes from where the run lies."""
        root = set_scene(self._context, assignment).folders.root
        remove_tree(root)
        root.mkdir(parents=True)
        return Unpacking(root)

    def take_tapes(self, assignment: Assignment) -> Unpacking:
        """Make room for the recorded calls that answer an attempt's."""
        folder = find_delivery(self._place.tapes, assignment)
        remove_tree(folder)
        folder.mkdir(parents=True)
        return Unpacking(folder)

    async def close(self) -> None:
        """Let go of all but what was not released."""
        for token in list(self._calls):
            await self.cancel(token)
        for token in list(self._remembered):  # who tells us to let go has heard of them
            self._stop_remembering(token)
        await self._local.close()
        await asyncio.to_thread(self._place.leave)
        os.close(self._lock)

    def _can_be_trusted(self, survivor: Survivor) -> bool:
        """Whether a power cut can't have taken what a grader left."""
        return not self._has_rebooted or survivor.phase not in {"grader", "exited"}

    def _find_standing(self) -> list[Survivor]:
        found: list[Survivor] = []
        for path in self._place.standing.glob("*.json"):
            with suppress(ValueError, OSError):  # torn by a crash: nobody stands there
                each = _standing.decode(path.read_bytes())
                if each.note.boot_id and each.note.boot_id == boot_id():
                    found.append(_stand(path.stem, each))
        return found

    def _stop_remembering(self, token: str) -> None:
        self._remembered.discard(token)
        self._standing_of(token).unlink(missing_ok=True)

    def _standing_of(self, token: str) -> Path:
        return self._place.standing / f"{token}.json"

    def _remember(self, order: AttemptOrder, notes: Notes) -> Notes:
        return _RememberingNotes(notes, order.assignment, self._standing_of(order.assignment.token))


def _note_boot(place: RunPlace) -> bool:
    """Whether the machine was started again since an earlier worker of this run."""
    path, now = place.folder / "boot", boot_id()
    before = path.read_text(encoding="utf-8") if path.exists() else now
    put_whole(path, now.encode())
    return before != now


def _stand(token: str, each: StandingNote) -> Survivor:
    there = Assignment(token=token, slot=NOWHERE, trial_id=each.trial_id, attempt=each.attempt)
    standing = stand_at_barrier(there, each.note)
    return replace(standing, phase="grader") if each.grader_started else standing


class _RememberingNotes:
    """Notes that are kept here, too, where nothing else would tell the next worker."""

    def __init__(self, notes: Notes, assignment: Assignment, path: Path) -> None:
        self._notes, self._assignment, self._path = notes, assignment, path

    def placed(self, token: str, node: str) -> None:
        self._notes.placed(token, node)

    async def barrier_held(self, token: str, note: BarrierNote) -> None:
        await asyncio.to_thread(self._write, note, grader_started=False)
        await self._notes.barrier_held(token, note)

    async def grader_starting(self, token: str) -> None:
        await self._notes.grader_starting(token)
        if self._path.exists():
            standing = _standing.decode(self._path.read_bytes())
            await asyncio.to_thread(self._write, standing.note, grader_started=True)

    def sandbox_gone(self, token: str) -> None:
        self._notes.sandbox_gone(token)

    def add_event(self, assignment: Assignment, seq: int, line: bytes) -> None:
        self._notes.add_event(assignment, seq, line)

    def _write(self, note: BarrierNote, *, grader_started: bool) -> None:
        standing = StandingNote(
            trial_id=self._assignment.trial_id,
            attempt=self._assignment.attempt,
            note=note,
            grader_started=grader_started,
        )
        put_whole(self._path, msgspec.json.encode(standing), is_synced=False)
