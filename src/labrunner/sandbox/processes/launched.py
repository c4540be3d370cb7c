"""A sandbox whose phases and calls are each a launch of their own, which ends with everything it started."""

from abc import abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from labrunner.sandbox.door import AgentRun, Phase, PhaseEnd, SandboxSpec
from labrunner.sandbox.mortal import Unfetchable
from labrunner.sandbox.processes.phase import Finished, Scratch, choose_scratch, run_in_order

if TYPE_CHECKING:
    from labrunner.sandbox.execution import ExecCall, ExecEnd
    from labrunner.sandbox.processes.process_calls import ProcessCalls
    from labrunner.sandbox.terminals.person import Person, TerminalCall


@dataclass(frozen=True, kw_only=True)  # without slots: calls are made when the first one comes
class LaunchedSandbox(Unfetchable):
    """One attempt's launches, one after another."""

    spec: SandboxSpec

    @abstractmethod
    async def launch(self, phase: Phase, scratch: Scratch) -> Finished:
        """Carry out one phase; nothing of it is left when this returns."""

    async def run_agent(self, setup: Phase | None, agent: Phase) -> AgentRun:
        """Run setup and agent, the end of each proven."""
        return await run_in_order(self._run, setup, agent)

    async def run_grader(self, grader: Phase) -> PhaseEnd:
        """Run the grader over the same workspace, with its files."""
        return (await self._run(grader)).end

    async def begin(self, setup: Phase | None, agent: Phase) -> PhaseEnd | None:
        """Run the setup, and take calls from now on."""
        return await self._calls.begin(setup, agent)

    async def exec(self, call: "ExecCall") -> "ExecEnd":
        """Carry out a call."""
        return await self._calls.exec(call)

    async def attend(self, call: "TerminalCall", person: "Person") -> "ExecEnd":
        """Let a person look around."""
        return await self._calls.attend(call, person)

    async def end_all(self) -> AgentRun:
        """Nothing is left of a call that has ended."""
        return await self._calls.end_all()

    @cached_property
    def _calls(self) -> "ProcessCalls":
        from labrunner.sandbox.processes.process_calls import ProcessCalls  # for Python tasks

        return ProcessCalls(self.spec.folders, self.launch)

    async def _run(self, phase: Phase) -> Finished:
        return await self.launch(phase, choose_scratch(self.spec.folders, phase.name))
