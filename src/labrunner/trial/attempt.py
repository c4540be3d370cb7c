"""One attempt, from its empty folder to its completion: setup, agent, barrier, grader, collection.

Rule: every way out yields exactly one `Completion`, except those that `ending` lets pass, after the sandbox
has ended everything.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, TypeVar

from labrunner.errors import AttemptFailed, SystemBroken
from labrunner.files.layering.layernote import LAYER, LAYER_PART
from labrunner.files.strangers.hostile import Refusal, read_masked
from labrunner.files.strangers.masking import Masker, make_masker
from labrunner.files.strangers.removal import remove_if_possible
from labrunner.gateway.recording.calljournal import read_calls, settle_calls
from labrunner.gateway.recording.doorjournal import settle_doors
from labrunner.records.completion import AttemptEnd, Completion, Failed
from labrunner.sandbox.door import GuestPaths, Phase, Sandbox, SandboxMaker, SandboxSpec, Survivor
from labrunner.sandbox.processes.room import DISK_FULL
from labrunner.trial import classification, phases, preparation
from labrunner.trial.assignment import Assignment, AttemptScene, Notes, TrialContext, set_scene
from labrunner.trial.classification import AgentFacts
from labrunner.trial.collecting.artifacts import copy_out
from labrunner.trial.collecting.collection import RESULT_CAP, Collected, collect, keeps_workspace
from labrunner.trial.collecting.cut_off import redact_cut_off
from labrunner.trial.collecting.result_file import is_agent_result, read_word
from labrunner.trial.collecting.traces import is_untouched
from labrunner.trial.door_tokens import find_tokens
from labrunner.trial.ending import reach_end
from labrunner.trial.grading import Grading
from labrunner.trial.ledger import Ledger

if TYPE_CHECKING:  # loaded only where a run has models or lists of hosts
    from labrunner.gateway.process.owner import GatewayOwner
    from labrunner.trial.reaching import Reaching

T = TypeVar("T")


async def carry_out(
    context: TrialContext,
    assignment: Assignment,
    maker: SandboxMaker,
    notes: Notes,
    survivor: Survivor | None = None,
    gateway: "GatewayOwner | None" = None,
) -> Completion:
    """Carry out one attempt, or go on with one that a crashed runner left, and say how it ended."""
    scene = set_scene(context, assignment)
    return await _Attempt(scene, maker, notes, survivor, gateway).carry_out()


class _Attempt:
    """One attempt under way."""

    def __init__(
        self,
        scene: AttemptScene,
        maker: SandboxMaker,
        notes: Notes,
        survivor: Survivor | None,
        gateway: "GatewayOwner | None",
    ) -> None:
        self._scene = scene
        self._maker = maker
        self._notes = notes
        self._survivor = survivor
        self._gateway = gateway
        self._reaching: Reaching | None = None
        self._ledger = Ledger(scene=scene, masker=_masker(scene), is_adopted=survivor is not None)

    async def carry_out(self) -> Completion:
        end = await reach_end(self._reach_end(), self._scene, self._notes, self._ledger.masker)
        return await self._complete(end)

    async def _reach_end(self) -> AttemptEnd:
        scene = self._scene
        guest = self._maker.guest_paths(scene.folders, scene.agent_dir)
        async with self._enter(phases.sandbox_spec(scene)) as sandbox, self._outside(sandbox):
            self._ledger.barrier = sandbox.barrier
            self._ledger.limits |= sandbox.limits
            if self._survivor is None:
                policy = phases.policy_note(scene, self._ledger.limits)
                await asyncio.to_thread(preparation.write_policy, scene.folders, policy)
            end = await self._run_phases(sandbox, guest)
            paths = phases.collected(scene.context.experiment, scene.task)
            await copy_out(sandbox, guest, scene.folders, paths)
            return end

    @asynccontextmanager
    async def _enter(self, spec: SandboxSpec) -> AsyncIterator[Sandbox]:
        """Make a sandbox over fresh folders, or take over the one that is left."""
        if self._survivor is None:
            aside = await self._timed("prepare", preparation.lay_out, self._scene)
            if aside is not None:
                found = await self._timed("prepare", redact_cut_off, aside, self._ledger.masker)
                self._ledger.note_redaction(found)
            opened = self._maker.open(spec)
        else:
            if self._survivor.ended is not None:
                await self._timed("prepare", preparation.lay_out_again, self._scene.folders)
            opened = self._maker.adopt(spec, self._survivor)
        async with opened as sandbox:
            yield sandbox

    @asynccontextmanager
    async def _outside(self, sandbox: Sandbox) -> AsyncIterator[None]:
        """Have the doors of the gateway, where phases have any; none is left open."""
        if self._gateway is not None:
            from labrunner.trial.reaching import prepare_reaching

            is_adopted = self._survivor is not None
            self._reaching = await prepare_reaching(
                self._scene, self._gateway, sandbox, is_adopted=is_adopted
            )
            self._ledger.limits["reach"] = self._reaching.reach.way
        try:
            yield
        finally:
            await self._close_doors()

    async def _close_doors(self) -> None:
        """Close what is open; all that was said through it is on disk on return."""
        if self._reaching is not None:
            await self._reaching.close()

    def _furnish(self, phase: Phase) -> Phase:
        return phase if self._reaching is None else self._reaching.furnish(phase)

    async def _run_phases(self, sandbox: Sandbox, guest: GuestPaths) -> AttemptEnd:
        setup, agent = phases.setup_phase(self._scene, guest), phases.agent_phase(self._scene, guest)
        ledger = self._ledger
        ledger.note_run(await sandbox.run_agent(setup and self._furnish(setup), self._furnish(agent)))
        await self._close_doors()
        ledger.barrier = sandbox.barrier  # what the agent did may have decided it
        if ledger.setup is not None and (failed := classification.setup_failure(ledger.setup)):
            return failed
        facts = await self._timed("bring_grader", self._look_behind_barrier)
        if not isinstance(facts, AgentFacts):
            return facts
        if not self._grader_tries_before:
            await self._notes.barrier_held(self._scene.assignment.token, ledger.barrier_note())
        grading = Grading(
            ledger=ledger,
            notes=self._notes,
            tries_before=self._grader_tries_before,
            furnish=self._furnish,
        )
        try:
            judgement, prediction = await grading.run(sandbox, guest, facts.ending)
        except SystemBroken:
            return classification.broken(facts)
        return classification.graded(facts, judgement, prediction)

    def _look_behind_barrier(self) -> AgentFacts | AttemptEnd:
        """See what the agent left; bring the grader's files, unless that already decides."""
        facts = self._agent_facts()
        self._ledger.left_nothing = self._has_left_nothing()
        policy = self._scene.context.experiment.grade_on_agent_failure
        if end := classification.end_before_grading(facts, grade_on_agent_failure=policy):
            return end
        if not self._grader_tries_before:
            preparation.bring_grader(self._scene.task, self._scene.folders)
            preparation.clear_verdicts(self._scene.folders)
        return facts

    @property
    def _grader_tries_before(self) -> int:
        """How often a runner before us has started the grader: then its files and answer stay untouched."""
        return self._survivor.grader_tries if self._survivor is not None else 0

    def _agent_facts(self) -> AgentFacts:
        """Join how the agent ended with what it handed in."""
        ledger = self._ledger
        result = read_masked(self._scene.folders.out, "result.json", ledger.masker, cap=RESULT_CAP)
        is_missing = isinstance(result, Refusal) and result.reason == "missing"
        is_valid = isinstance(result, bytes) and is_agent_result(result)
        if isinstance(result, bytes) and is_valid:
            ledger.note_word(read_word(result))
        self._hear_calls()
        return ledger.agent_facts(has_result=is_valid, has_invalid_result=not is_valid and not is_missing)

    def _hear_calls(self) -> None:
        """See what the gateway recorded of the agent: once, when nothing of it can call any more."""
        if self._ledger.has_heard_calls:
            return
        settle_calls(self._scene.folders.root)
        if calls := tuple(read_calls(self._scene.folders.root)):
            self._ledger.note_calls(calls)

    def _has_left_nothing(self) -> bool:
        """Whether the agent did nothing that could be seen, where it worked."""
        run = self._ledger.run
        if phases.sandbox_plan(self._scene).workdir is not None and not (run.layer and run.layer.is_empty):
            return False
        return not run.system_changes and is_untouched(self._scene.folders)

    async def _complete(self, end: AttemptEnd) -> Completion:
        if isinstance(end, Failed) and end.reason == DISK_FULL:
            # It may be what fills the disk, and keeping it would keep every other attempt from its work.
            for name in ("workspace", LAYER, LAYER_PART):
                await asyncio.to_thread(remove_if_possible, self._scene.folders.root / name)
        keep = self._scene.context.experiment.policy.keep.workspace
        masker, keeps = self._ledger.masker, keeps_workspace(keep, end)
        await asyncio.to_thread(self._hear_calls)
        await asyncio.to_thread(settle_doors, self._scene.folders.root)
        try:
            kept = await self._timed("collect", collect, self._scene.folders, masker, keeps)
        except AttemptFailed as failure:
            kept = Collected()
            left = await self._timed("collect", redact_cut_off, self._scene.folders.root, masker)
            self._ledger.note_redaction(left)
            end = classification.spoilt(failure)
        return self._ledger.complete(end, kept)

    async def _timed(self, name: str, work: Callable[..., T], *args: object) -> T:
        """Do blocking work in a thread and note how long it took."""
        with self._ledger.timing(name):
            return await asyncio.to_thread(work, *args)


def _masker(scene: AttemptScene) -> Masker:
    known = scene.context.secrets
    # Where recorded calls answer, a key may not be there: then it can't be said either.
    keys = (entry.key for entry in scene.variant.models if entry.key is not None and entry.key in known)
    names = {*scene.variant.agent.secrets, *scene.task.grader.secrets, *keys}
    return make_masker({name: known[name] for name in names} | find_tokens(scene))
