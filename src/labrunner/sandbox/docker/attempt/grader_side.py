"""The grader's part of an attempt in a container: made ready, rung for, and awaited; as often as asked."""

import asyncio
import secrets
import time
from dataclasses import dataclass, replace

from labrunner.errors import SandboxFailed, SetupFailed, SystemBroken
from labrunner.files.durable import put_whole
from labrunner.records.facts.exit_status import KILLED, NO_COMMAND
from labrunner.sandbox.docker.attempt.stage import OUTSIDE, Overrun, Stage
from labrunner.sandbox.docker.engine.engine_errors import EngineGone, EngineRefused, StreamsEnded
from labrunner.sandbox.docker.engine.replies import ContainerState
from labrunner.sandbox.docker.wrapper import script
from labrunner.sandbox.docker.wrapper.notes import Note, phase_end
from labrunner.sandbox.door import Phase, PhaseEnd

RINGS = 5
"""How often a doorbell is rung again when the engine went away."""
STARTS = 3
"""How often a container is started for one grader."""
PAUSE_S = 0.05
END_S = 10.0
"""How long a wrapper may take to leave when its grader has ended."""


@dataclass(slots=True, kw_only=True)
class GraderSide:
    """Runs graders behind an attempt's barrier."""

    stage: Stage
    tries: int = 0
    is_under_way: bool = False
    """A runner before us has rung already: its grader's end is awaited, none is started."""

    async def run(self, grader: Phase) -> PhaseEnd:
        """Run the grader once. A container that died before it could begin is started again for it."""
        is_new, self.is_under_way = not self.is_under_way, False
        self.tries += is_new
        if not is_new and grader.doors is not None:
            await self.stage.container.open_doors(grader.doors)  # who served them may be gone, too
        for _ in range(STARTS):
            try:
                found = await self._try(grader) if is_new else await self._await(grader)
            except SetupFailed as failure:
                raise await self._blame(failure) from failure
            if not isinstance(found, ContainerState):
                return await self._check(found)
            self.stage.is_alive = False
            if self._has_begun() or not is_new:
                return await self._explain_death(found)
        told = await self.stage.container.complaint() or "the container died before its grader could begin"
        raise await self._blame(SandboxFailed("engine_restarted", told))

    async def _try(self, grader: Phase) -> PhaseEnd | ContainerState:
        await self._make_ready(grader)
        start, bell = self.stage.prepare(grader), secrets.token_hex(16)
        command = script.command_text(self.stage.basics, bell, start, number=self.tries)
        folder = self.stage.spec.folders.grader
        await asyncio.to_thread(put_whole, folder / script.COMMAND_FILE, command.encode(), is_synced=False)
        self.stage.is_handed_back = False
        dead = await self._ring(script.ring_text(self.stage.basics, bell, start))
        return dead or await self._await(grader)

    async def _make_ready(self, grader: Phase) -> None:
        """Have a container that waits for the doorbell, on the grader's network."""
        stage = self.stage
        if stage.must_renew or (grader.afresh and not stage.is_renewed):
            await stage.renew(grader)
        elif stage.is_alive:
            await stage.switch(grader)
        else:
            await stage.start_again(grader)

    async def _ring(self, bell: str) -> ContainerState | None:
        """Ring, again if the engine went away: a wrapper that has heard it ignores the second."""
        container = self.stage.container
        for _ in range(RINGS):
            try:
                await container.tell(bell)
                return None
            except StreamsEnded:
                pass  # looking tells whether it is the container's end
            except EngineGone:
                container.engine_was_away = True
            except EngineRefused:  # no streams to be had: it may have ended
                await asyncio.sleep(PAUSE_S)
            await container.detach()
            state = await container.look()
            if not state.is_alive:
                return state
        raise SandboxFailed("engine_gone", "the engine went away whenever a grader was to be started")

    async def _await(self, grader: Phase) -> PhaseEnd | ContainerState:
        """Wait for the grader's answer; a state when its container died instead."""
        stage = self.stage
        answer = stage.container.until(self._has_answered)
        found = await stage.within(grader.timeout_s + stage.patience.grace_s, grader, answer)
        if isinstance(found, Overrun):
            told = SandboxFailed("no_answer", "nothing came of the grader's start")
            failure = told if self._has_begun() else await self._blame(told)
            await stage.end()
            await stage.reclaim()
            if isinstance(failure, SystemBroken):
                raise failure
            return found.end()
        return found if isinstance(found, ContainerState) else await self._finish(found, grader)

    def _has_begun(self) -> bool:
        note = self.stage.container.note()
        return note.is_certain and note.phase in {"grader", "graded"} and note.tries == self.tries

    async def _finish(self, note: Note, grader: Phase) -> PhaseEnd:
        """Join the wrapper's word with the engine's."""
        stage = self.stage
        stays = note.number("code") != 0 and grader.may_repeat
        state = await stage.container.look() if stays else await stage.end(patience_s=END_S)
        stage.is_alive, stage.is_handed_back = state.is_alive, True
        end = phase_end(note, "grader") or PhaseEnd(exit_status=None)
        return replace(end, oom_killed=end.oom_killed or (state.oom_killed and not self._agent_had_oom()))

    def _has_answered(self, note: Note) -> bool:
        return note.is_certain and note.phase == "graded" and note.tries == self.tries

    async def _explain_death(self, state: ContainerState) -> PhaseEnd:
        if state.oom_killed and not self._agent_had_oom():
            return PhaseEnd(exit_status=KILLED, oom_killed=True)
        reason = "engine_restarted" if self.stage.container.engine_was_away else "killed_outside"
        told = f"the container ended with {state.exit_code} while its grader ran"
        raise await self._blame(SandboxFailed(reason, told))

    async def _check(self, end: PhaseEnd) -> PhaseEnd:
        """A grader's end, unless its command could not be started for what the agent did to the system."""
        if end.exit_status in NO_COMMAND and not self.stage.may_be_setups:
            told = f"the grader's command ended with {end.exit_status}"
            failure = await self._blame(SandboxFailed("no_command", told))
            if isinstance(failure, SystemBroken):
                raise failure
        return end

    async def _blame(self, failure: SandboxFailed | SetupFailed) -> SandboxFailed | SetupFailed:
        """Blame the agent where it changed the system, and nobody did anything to the container."""
        container = self.stage.container
        if not self.stage.has_changed_system or container.engine_was_away:
            return failure
        state = await container.look()
        done = await self.stage.engine.events(container.id, state.started_at, time.time())
        if OUTSIDE.intersection(done):
            return failure
        return SystemBroken("system_broken", f"{failure}; the agent had changed the system")

    def _agent_had_oom(self) -> bool:
        record = self.stage.record
        return record is not None and record.run.agent is not None and record.run.agent.oom_killed
