"""Sandboxes that end with their runner: there is never anything to adopt, to reap or to remove."""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager

from labrunner.errors import SandboxFailed
from labrunner.sandbox.door import Sandbox, SandboxSpec, Survivor
from labrunner.sandbox.marks import RunMark


class Mortal:
    """The part of a maker that speaks of what outlives the runner: nothing does."""

    __slots__ = ()

    @property
    def outlives_runner(self) -> bool:
        """No process of ours lives without us."""
        return False

    async def survivors(self, run: RunMark) -> tuple[Survivor, ...]:
        """None, ever."""
        del run
        return ()

    def adopt(self, spec: SandboxSpec, survivor: Survivor) -> AbstractAsyncContextManager[Sandbox]:
        """Never asked for in earnest."""
        raise SandboxFailed("adopt", f"{survivor.trial_id}: a {spec.plan.kind} sandbox can't be adopted")

    async def reap(self, run: RunMark, keep: frozenset[str]) -> int:
        """Nothing to remove."""
        del run, keep
        return 0

    async def release(self, token: str, *, keep: bool) -> None:
        """Nothing to remove."""
        del token, keep

    async def close(self) -> None:
        """Nothing to let go of."""


class Unfetchable:
    """The part of a sandbox that gives out files of its own: only its folders remain of this one."""

    __slots__ = ()

    def fetch(self, path: str) -> AsyncIterator[bytes]:
        """Refuse: preflight did, before."""
        raise SandboxFailed(
            "collect", f"{path}: only paths below the attempt's folders can be collected here"
        )
