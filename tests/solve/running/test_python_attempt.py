"""One attempt of a Python task, cancelled while its solver's call is under way."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from labrunner.experiment.run_policy import LOCAL
from labrunner.sandbox.bare import ProcessMaker, ProcessSandbox
from labrunner.sandbox.door import Phase, Sandbox, SandboxSpec
from labrunner.sandbox.processes.phase import Finished, Scratch
from labrunner.solve.origin import PythonTasks
from tests.kit.executor.crews import PythonCrew, Work
from tests.kit.trial.attempting import HeardNotes

TAKES_S = 0.5
"""How long ending a call takes here: longer than all that an attempt does after it."""


@dataclass
class Calls:
    begun: asyncio.Event = field(default_factory=asyncio.Event)
    ended: asyncio.Event = field(default_factory=asyncio.Event)


@dataclass(frozen=True, kw_only=True)
class SlowlyEnding(ProcessSandbox):
    """Its calls take their time to end when they are told to."""

    calls: Calls

    async def launch(self, phase: Phase, scratch: Scratch) -> Finished:
        self.calls.begun.set()
        try:
            return await super().launch(phase, scratch)
        finally:
            await asyncio.sleep(TAKES_S)
            self.calls.ended.set()


@dataclass(frozen=True, kw_only=True)
class SlowlyEndingMaker(ProcessMaker):
    calls: Calls

    def open(self, spec: SandboxSpec) -> AbstractAsyncContextManager[Sandbox]:
        return self._open_slowly(spec)

    @asynccontextmanager
    async def _open_slowly(self, spec: SandboxSpec) -> AsyncIterator[Sandbox]:
        async with ProcessMaker.open(self, spec) as place:
            assert isinstance(place, ProcessSandbox)
            yield SlowlyEnding(spec=spec, runner=place.runner, limits=place.limits, calls=self.calls)
            assert self.calls.ended.is_set(), "its sandbox was left while a call was under way"


async def test_a_cancelled_attempt_has_seen_its_calls_end(tmp_path: Path) -> None:
    calls = Calls()
    crew = PythonCrew(run_dir=tmp_path, work=Work(agent="sleep 60"))
    tasks = PythonTasks()
    crew.resolve(tasks)
    executor = tasks.executor(LOCAL, crew.context(), lambda kind: SlowlyEndingMaker(calls=calls))
    async with asyncio.TaskGroup() as group:
        attempt = group.create_task(executor.carry_out(crew.assignment, HeardNotes()))
        await calls.begun.wait()
        attempt.cancel()
    assert attempt.cancelled()
    assert calls.ended.is_set()
    await executor.close()
