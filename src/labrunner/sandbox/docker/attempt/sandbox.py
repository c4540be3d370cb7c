"""One attempt in one container, behind the door that all sandboxes share."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass

from labrunner.records.barrier import FRESH
from labrunner.sandbox.docker.attempt.agent_side import AgentSide
from labrunner.sandbox.docker.attempt.calls import DockerCalls
from labrunner.sandbox.docker.attempt.grader_side import GraderSide
from labrunner.sandbox.docker.attempt.stage import Stage
from labrunner.sandbox.docker.engine.engine_errors import EngineRefused
from labrunner.sandbox.docker.wrapper.configuration import Limits
from labrunner.sandbox.door import AgentRun, Phase, PhaseEnd, Reach
from labrunner.sandbox.execution import ExecCall, ExecEnd
from labrunner.sandbox.terminals.person import Person, TerminalCall


@dataclass(frozen=True, slots=True, kw_only=True)
class DockerSandbox:
    """One attempt's container."""

    stage: Stage
    grader: GraderSide
    calls: DockerCalls
    limits: Limits

    @property
    def barrier(self) -> str:
        """How the barrier is held; by a fresh container perhaps only once the agent's changes are known."""
        stage = self.stage
        if stage.spec.demands.fresh_grader or stage.must_renew or stage.is_renewed:
            return FRESH
        return "restarted" if self.stage.basics.restart else "separate_user"

    @property
    def reach(self) -> Reach:
        """How phases come to their doors."""
        return self.stage.reach

    async def run_agent(self, setup: Phase | None, agent: Phase) -> AgentRun:
        """Run setup and agent, or go on with them."""
        return await AgentSide(stage=self.stage).run(setup, agent)

    async def run_grader(self, grader: Phase) -> PhaseEnd:
        """Ring for the grader, or await the one that runs."""
        return await self.grader.run(grader)

    async def begin(self, setup: Phase | None, agent: Phase) -> PhaseEnd | None:
        """Start the container for calls, or open it for those behind the barrier."""
        return await self.calls.begin(setup, agent)

    async def exec(self, call: ExecCall) -> ExecEnd:
        """Carry out a call beside an idle agent."""
        return await self.calls.exec(call)

    async def attend(self, call: TerminalCall, person: Person) -> ExecEnd:
        """Let a person look around beside an idle agent."""
        return await self.calls.attend(call, person)

    async def end_all(self) -> AgentRun:
        """End the idle agent: the barrier ends the rest."""
        return await self.calls.end_all()

    async def fetch(self, path: str) -> AsyncGenerator[bytes, None]:
        """Stream a path of the container, running or not; of the agent's before the grader's own."""
        for container_id in self.stage.container_ids:
            is_there = False
            async with aclosing(self._archive(container_id, path)) as chunks:
                async for chunk in chunks:
                    is_there = True
                    yield chunk
            if is_there:
                return

    async def _archive(self, container_id: str, path: str) -> AsyncGenerator[bytes, None]:
        engine = self.stage.engine
        try:
            async with aclosing(engine.archive(container_id, path)) as chunks:
                async for chunk in chunks:
                    yield chunk
        except EngineRefused as refusal:
            if not refusal.is_not_found:
                raise
        finally:
            # Folders of a container that is being read are busy, and can't be removed: this waits.
            await engine.look(container_id)
