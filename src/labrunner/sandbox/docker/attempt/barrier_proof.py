"""The barrier of a container, proven from outside: nothing of the agent is left; what it changed is known."""

import asyncio
import time
from dataclasses import dataclass, replace
from typing import Final

from labrunner.sandbox.docker.attempt.stage import Stage
from labrunner.sandbox.docker.attempt.systemwatch import SystemWatch
from labrunner.sandbox.docker.engine.replies import ContainerState
from labrunner.sandbox.docker.watching.residue import intruders
from labrunner.sandbox.docker.worklayer.taking import is_layer_wanted
from labrunner.sandbox.door import AgentRun

PROOF_PAUSE_S: Final = 0.02
SHOWN: Final = 20
"""How many changed paths are named."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BarrierProof:
    """One attempt's."""

    stage: Stage
    system: SystemWatch

    async def prove(self, run: AgentRun) -> AgentRun:
        """Prove from outside that nothing of the agent is left, and see what it changed."""
        if is_layer_wanted(self.stage.spec):  # what is listed then serves the layer, too
            run, processes = await self._silence(run)
            found = await self.system.changes()
        else:
            run, processes, found = await self._silence_and_changes(run)
        facts: dict[str, int | str | bool] = {"processes": processes}
        if found is not None:
            facts |= {"system_changes": len(found), "changed": "\n".join(found[:SHOWN])}
        return replace(run, system_changes=None if found is None else found[:SHOWN], facts=facts)

    async def _silence_and_changes(self, run: AgentRun) -> tuple[AgentRun, int, tuple[str, ...] | None]:
        try:
            async with asyncio.TaskGroup() as group:
                left = group.create_task(self._silence(run))
                changes = group.create_task(self.system.changes())
        except ExceptionGroup as failures:
            raise failures.exceptions[0] from failures  # either alone says enough
        return *left.result(), changes.result()

    async def _silence(self, run: AgentRun) -> tuple[AgentRun, int]:
        """See that at most the wrapper and its timer are left, and settle what the agent left."""
        stage = self.stage
        state, processes = stage.end_state or await stage.container.look(), 0
        if state.is_alive and stage.container.note().number("littered"):
            state = await stage.end(patience_s=stage.patience.proof_s)
        if state.is_alive and (found := await self._wait_for_silence(state)) is None:
            state = await stage.end()
        elif state.is_alive and found is not None:
            processes = found
        stage.is_alive = state.is_alive
        await stage.settle()
        return _with_memory(run, state), processes

    async def _wait_for_silence(self, state: ContainerState) -> int | None:
        """Wait until only the wrapper and its timer are left; how many processes that are, None if more."""
        stage, deadline = self.stage, time.monotonic() + self.stage.patience.proof_s
        while True:
            processes = await stage.engine.processes(stage.container.id, state.pid)
            if not intruders(processes, state.pid, stage.expiry_s):
                return sum(not process.is_dead for process in processes)
            if time.monotonic() > deadline:
                return None
            await asyncio.sleep(PROOF_PAUSE_S)


def _with_memory(run: AgentRun, state: ContainerState) -> AgentRun:
    """Add what the engine knows of memory: a kill that setup is not to blame for is the agent's."""
    is_setups = run.setup is not None and run.setup.oom_killed
    if run.agent is None or is_setups or not state.oom_killed:
        return run
    return replace(run, agent=replace(run.agent, oom_killed=True))
