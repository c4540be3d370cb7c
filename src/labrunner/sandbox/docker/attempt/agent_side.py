"""The agent's part of an attempt in a container: setup, agent, and the barrier, proven from outside."""

import asyncio
import time
from dataclasses import dataclass, replace
from typing import Final

from labrunner.errors import SandboxFailed, SetupFailed
from labrunner.files.durable import put_whole
from labrunner.files.layering.layernote import LAYER, PATCH, PATCH_FILE, LayerNote
from labrunner.records.facts.exit_status import KILLED
from labrunner.sandbox.docker.attempt.barrier_proof import BarrierProof
from labrunner.sandbox.docker.attempt.stage import OUTSIDE, Overrun, Stage
from labrunner.sandbox.docker.attempt.systemwatch import SystemWatch
from labrunner.sandbox.docker.engine.replies import ContainerState
from labrunner.sandbox.docker.worklayer.patching import NoPatch, make_patch
from labrunner.sandbox.docker.worklayer.taking import LayerTaker, is_layer_wanted
from labrunner.sandbox.docker.wrapper import script
from labrunner.sandbox.docker.wrapper.notes import Note, phase_end
from labrunner.sandbox.docker.wrapper.testimony import check_note, doubt
from labrunner.sandbox.door import AgentRun, Phase, PhaseEnd
from labrunner.sandbox.processes.enforcement import Share
from labrunner.sandbox.processes.room import DISK_FULL, look_at

LACKING, LEFT_ALONE, AT_BARRIER, CANNOT_TELL = 85, 86, 87, 88
SLACK: Final = 2
"""How many shares of the disk a layer may hold."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentSide:
    """Brings an attempt to its barrier."""

    stage: Stage

    async def run(self, setup: Phase | None, agent: Phase) -> AgentRun:
        """Run setup and agent, or go on with them; return when the barrier holds."""
        stage = self.stage
        if stage.record is not None:
            return stage.record.run
        if stage.is_begun:
            await self._open_again(setup, agent)
        else:
            await self._begin(setup, agent)
        return await self.conclude(await self._watch(setup, agent))

    async def conclude(self, run: AgentRun) -> AgentRun:
        """Stand at the barrier of an agent that has ended, and write down what is seen there."""
        stage, started = self.stage, time.monotonic()
        if run.agent is not None and not run.wrapper_killed:
            run = await BarrierProof(stage=self.stage, system=self._system).prove(run)
            if is_layer_wanted(stage.spec, is_left=stage.is_left(run)):
                taken = await self._take_layer()
                told = await self._make_patch() if taken.is_there else {}
                run = replace(run, layer=taken, facts={**run.facts, **taken.facts(), **told})
        await stage.reclaim()
        await stage.reopen()
        run = replace(run, barrier_s=time.monotonic() - started)
        await stage.keep_record(run)
        return run

    async def _take_layer(self) -> LayerNote:
        """Take what was changed in the image's folder in which the agent worked."""
        stage, share = self.stage, Share.of(self.stage.spec.plan)
        taker = LayerTaker(
            engine=stage.engine,
            container=stage.container.id,
            image=stage.image,
            spec=stage.spec,
            # One who was ended for the disk is judged as it stands: it holds more than its share by then.
            most=(SLACK * share.bytes, SLACK * share.files),
            upper=stage.layer if stage.keeps_numbers else None,
            lower=stage.lower,
            listed=stage.listed,
        )
        return await taker.take()

    async def _make_patch(self) -> dict[str, int | str | bool]:
        """Make a patch of the same, where somebody wants one; what people are told of it."""
        stage, root = self.stage, self.stage.spec.folders.root
        if PATCH not in stage.spec.demands.collect:
            return {}
        try:
            async with stage.aside() as container:
                patch = await make_patch(stage.engine, container, root / LAYER, stage.basics.workdir)
        except NoPatch as reason:
            return {"patch": f"there is none: {reason}"}
        with SandboxFailed.during("layer", f"writing {root / PATCH_FILE}"):
            await asyncio.to_thread(put_whole, root / PATCH_FILE, patch)
        return {"patch_bytes": len(patch)}

    @property
    def _system(self) -> SystemWatch:
        return SystemWatch(stage=self.stage)

    async def _begin(self, setup: Phase | None, agent: Phase) -> None:
        stage = self.stage
        if stage.spec.demands.refuses_changes:  # whose baseline may be one of contents
            stage.note_places(await stage.container.look())
        if self._system.must_note and not self._needs_gate(setup, agent):
            await self._system.note(after_setup=False)
        plan = script.plan_text(
            stage.basics,
            stage.container.nonce,
            None if setup is None else stage.prepare(setup),
            stage.prepare(agent),
            gate=self._needs_gate(setup, agent),
        )
        await stage.start(plan, agent if setup is None else setup)

    async def _open_again(self, setup: Phase | None, agent: Phase) -> None:
        """Have the doors of a container that was taken over: who served them may be gone, too."""
        is_at_setup = setup is not None and not await self._has_begun()
        doors = setup.doors if setup is not None and is_at_setup else agent.doors
        if doors is not None:
            await self.stage.container.open_doors(doors)

    async def _watch(self, setup: Phase | None, agent: Phase) -> AgentRun:
        """Wait for the agent's end, or bring it about when its time or its disk is used up.

        What setup has left of its time is not the agent's.
        """
        found: Note | ContainerState | Overrun | None = None
        patience = self.stage.patience
        if setup is not None:
            limit_s = setup.timeout_s + patience.grace_s
            found = await self.stage.within(limit_s, setup, self._until_begun(setup, agent))
            if isinstance(found, Note) and found.phase == "gate":
                await self._pass_gate(agent)  # looking at what setup made is none of its time
                found = None
        if found is None or (isinstance(found, Overrun) and await self._has_begun()):
            limit_s = agent.timeout_s + patience.grace_s
            found = await self.stage.within(limit_s, agent, self._until_end())
        if isinstance(found, Overrun):
            await self.stage.end()
            return self._ended_in(await self._note(), found.end(), setup)
        if isinstance(found, Note) and found.phase == "failed":
            found = await self.stage.end(patience_s=patience.proof_s)  # whoever said so, its end tells more
        if isinstance(found, ContainerState):
            self.stage.is_alive, self.stage.end_state = False, found
            note = self.stage.container.note()
            if not (found.exit_code == AT_BARRIER and note.is_certain and note.number("agent") is not None):
                return await self._explain_death(found, setup)
            found = note
        self.stage.is_handed_back = not self.stage.basics.is_shared  # else an agent may have said so
        end = phase_end(found, "agent")
        if end is not None and await self.stage.is_over_disk():
            end = replace(end, over_disk=True)
        return AgentRun(setup=_setup_end(found, setup), agent=end)

    async def _until_begun(self, setup: Phase, agent: Phase) -> Note | ContainerState | None:
        """Wait until setup is over: at its gate or where the agent begins. Else how it ended."""
        ends = {"gate", "agent"} if self._needs_gate(setup, agent) else {"agent"}
        found = await self.stage.container.until(lambda note: note.is_certain or note.phase in ends)
        return None if isinstance(found, Note) and found.phase not in {"gate", "failed"} else found

    async def _pass_gate(self, agent: Phase) -> None:
        """Do what is to be done between setup and agent, and let the agent begin."""
        await self._system.note(after_setup=True)
        await self.stage.switch(agent)
        await self.stage.container.tell(script.go_text(self.stage.container.nonce))

    async def _until_end(self) -> Note | ContainerState:
        if self.stage.basics.restart:
            return await self.stage.container.ended()
        return await self.stage.container.until(lambda note: note.is_certain)

    async def _has_begun(self) -> bool:
        """Whether the agent has, whatever has become of the note that says so."""
        return (await self._note()).phase not in {"none", "setup", "gate", "failed"}

    async def _explain_death(self, state: ContainerState, setup: Phase | None) -> AgentRun:
        """Say who ended a container that did not reach its barrier: by the engine's state and memory."""
        stage, note = self.stage, await self._note()
        if note.is_certain and note.phase == "failed":
            stage.is_handed_back = True
            return AgentRun(setup=phase_end(note, "setup"), agent=None)
        told = f"the container ended with {state.exit_code} during: {note.phase}"
        is_suspect = note.phase == "agent" and stage.basics.is_shared
        if state.exit_code == LACKING and not is_suspect:
            raise SetupFailed("tool_missing", await stage.container.complaint() or told)
        if state.exit_code == LEFT_ALONE and not (is_suspect or stage.container.engine_was_away):
            raise SandboxFailed("expired", f"{told}; nobody came back for it")
        if state.oom_killed:
            return self._ended_in(note, PhaseEnd(exit_status=KILLED, oom_killed=True), setup)
        if state.exit_code == CANNOT_TELL and _is_full(stage):
            raise SandboxFailed(DISK_FULL, f"{told}; the disk of {stage.spec.folders.root} is full")
        if stage.container.engine_was_away:
            raise SandboxFailed("engine_restarted", f"{told}; the engine was away meanwhile")
        done = await stage.engine.events(stage.container.id, state.started_at, time.time())
        if OUTSIDE.intersection(done):
            raise SandboxFailed("killed_outside", f"{told}; somebody asked the engine for it")
        if not is_suspect:
            raise SandboxFailed("killed_outside", f"{told}; no agent could have done it")
        return replace(self._ended_in(note, PhaseEnd(exit_status=None), setup), wrapper_killed=True)

    async def _note(self) -> Note:
        """How far the wrapper is, whatever an agent has made of its note."""
        container, note = self.stage.container, self.stage.container.note()
        if self.stage.basics.is_shared:
            note = doubt(note, is_alive=self.stage.is_alive)
        return await check_note(container.engine, container.id, note)

    def _ended_in(self, note: Note, end: PhaseEnd, setup: Phase | None) -> AgentRun:
        """Blame an end on the phase that the wrapper was in."""
        if note.phase in {"setup", "gate"}:
            return AgentRun(setup=end, agent=None)
        return AgentRun(setup=_setup_end(note, setup), agent=end)

    def _needs_gate(self, setup: Phase | None, agent: Phase) -> bool:
        """Whether there is something to do between setup and agent."""
        asked = self.stage.spec.demands
        if setup is None:
            return False
        # Doors are those of one phase, though both may reach the same.
        return asked.system_changes or setup.network != agent.network or agent.doors is not None


def _setup_end(note: Note, setup: Phase | None) -> PhaseEnd | None:
    """How setup ended before an agent that was started: well. A note may be forged to say otherwise."""
    told = phase_end(note, "setup")
    if setup is None:
        return None
    return PhaseEnd(exit_status=0, seconds=told.seconds if told else 0.0, usage=told.usage if told else {})


def _is_full(stage: Stage) -> bool:
    return bool(look_at(stage.spec.folders.root))
