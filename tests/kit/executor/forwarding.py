"""An executor as another package would bring it: what it is told and what it answers travels as bytes."""

import pickle
from typing import cast

import msgspec

from labrunner.executor.door import Discard, Executor
from labrunner.records.completion import Completion
from labrunner.sandbox.door import Check, Survivor
from labrunner.trial.assignment import Assignment, Notes


class ForwardingExecutor:
    """Hands every call on to an executor elsewhere."""

    def __init__(self, inner: Executor) -> None:
        self._inner = inner

    async def preflight(self) -> tuple[Check, ...]:
        return await self._inner.preflight()

    def outlives_runner(self, assignment: Assignment) -> bool:
        return self._inner.outlives_runner(_send(assignment))

    async def carry_out(
        self, assignment: Assignment, notes: Notes, survivor: Survivor | None = None
    ) -> Completion:
        done = await self._inner.carry_out(_send(assignment), notes, survivor)
        return msgspec.msgpack.decode(msgspec.msgpack.encode(done), type=Completion)

    async def release(self, assignment: Assignment, drop: Discard) -> None:
        await self._inner.release(_send(assignment), drop)

    async def survivors(self) -> tuple[Survivor, ...]:
        return await self._inner.survivors()

    async def reap(self, keep: frozenset[str]) -> int:
        return await self._inner.reap(keep)

    async def close(self) -> None:
        await self._inner.close()


def _send(assignment: Assignment) -> Assignment:
    return cast("Assignment", pickle.loads(pickle.dumps(assignment)))
