"""Sandboxes that end with their runner: all that is ever left of one are its folders.

So there is nothing to find, to reap or to remove. An attempt whose agent had ended can still be graded:
a new sandbox over the same folders stands where the old one stood at its barrier.
"""

from abc import abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass

from labrunner.errors import SandboxFailed
from labrunner.experiment.resolved import SandboxPlan
from labrunner.sandbox.door import AgentRun, HasDoors, Phase, PhaseEnd, Reach, Sandbox, SandboxSpec, Survivor
from labrunner.sandbox.longest_word import find_long_word
from labrunner.sandbox.marks import RunMark


class Mortal:
    """The part of a maker that speaks of what outlives the runner: nothing but folders does."""

    __slots__ = ()

    @property
    def outlives_runner(self) -> bool:
        """No process of ours lives without us."""
        return False

    async def survivors(self, run: RunMark) -> tuple[Survivor, ...]:
        """None, ever."""
        del run
        return ()

    def find_excess(self, plan: SandboxPlan, setup: Phase | None, agent: Phase, grader: Phase) -> str | None:
        """A word of a command, or a variable, that is longer than the kernel takes."""
        del plan
        return find_long_word(setup, agent, grader)

    @abstractmethod
    def open(self, spec: SandboxSpec) -> AbstractAsyncContextManager[Sandbox]:
        """Make a sandbox: each maker's own."""

    def adopt(self, spec: SandboxSpec, survivor: Survivor) -> AbstractAsyncContextManager[Sandbox]:
        """Stand at the barrier again, over the folders of an attempt whose agent has ended."""
        if survivor.ended is None:
            raise SandboxFailed("adopt", f"{survivor.trial_id}: nobody noted how its agent ended")
        return self._stand_again(spec, AgentRun(setup=survivor.setup, agent=survivor.ended))

    @asynccontextmanager
    async def _stand_again(self, spec: SandboxSpec, ended: AgentRun) -> AsyncIterator[Sandbox]:
        async with self.open(spec) as sandbox:
            yield _BehindBarrier(sandbox, ended)

    async def reap(self, run: RunMark, keep: frozenset[str]) -> int:
        """Nothing to remove."""
        del run, keep
        return 0

    async def release(self, token: str, *, keep: bool) -> None:
        """Nothing to remove."""
        del token, keep

    async def close(self) -> None:
        """Nothing to let go of."""


@dataclass(frozen=True, slots=True)
class _BehindBarrier:
    """A sandbox whose agent ended in an earlier one, over the same folders."""

    sandbox: Sandbox
    ended: AgentRun

    @property
    def barrier(self) -> str:
        """The kernel held it when the earlier sandbox ended."""
        return self.sandbox.barrier

    @property
    def limits(self) -> Mapping[str, float | int | str | bool | None]:
        """Those of the sandbox that grades."""
        return self.sandbox.limits

    @property
    def reach(self) -> Reach:
        """How its grader comes to its doors."""
        return self.sandbox.reach if isinstance(self.sandbox, HasDoors) else Reach(way="loopback")

    async def run_agent(self, setup: Phase | None, agent: Phase) -> AgentRun:
        """Tell how it ended: it does not run again."""
        del setup, agent
        return self.ended

    async def run_grader(self, grader: Phase) -> PhaseEnd:
        """Grade what it left."""
        return await self.sandbox.run_grader(grader)

    def fetch(self, path: str) -> AsyncGenerator[bytes, None]:
        """Whatever the sandbox itself can give."""
        return self.sandbox.fetch(path)


class Unfetchable:
    """The part of a sandbox that gives out files of its own: only its folders remain of this one."""

    __slots__ = ()

    def fetch(self, path: str) -> AsyncGenerator[bytes, None]:
        """Refuse: preflight did, before."""
        raise SandboxFailed(
            "collect", f"{path}: only paths below the attempt's folders can be collected here"
        )
