"""Judging work that agents of earlier runs left: a copy of it goes to the grader, and no agent runs.

Rules: the source is only read; what was kept is copied before a grader sees it. An agent that ended its own
sandbox has failed whatever a grader would say. A judgement that a crash cut short is begun anew.
"""

import asyncio
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, TypeAlias

import msgspec

from labrunner.engine.resumption import stand_at_barrier
from labrunner.executor.door import Executor, Leavings
from labrunner.records.canonical import stamp
from labrunner.records.completion import AttemptEnd, AttemptTiming, BarrierNote, Completion, Failed, PhaseFact
from labrunner.sandbox.door import Check, Survivor
from labrunner.store.layout import RunPaths
from labrunner.trial.assignment import Assignment, Notes
from labrunner.trial.classification import fail_ungraded
from labrunner.trial.ledger import complete
from labrunner.trial.preparation import set_aside

COPIED: Final = ("in", "workspace", "out", "state")


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptWork:
    """What an agent of an earlier run left, and how it ended."""

    folder: Path
    """Of the attempt."""
    agent: PhaseFact
    was_wrapper_killed: bool


FindWork: TypeAlias = Callable[[str], KeptWork | Failed | None]
"""The work that a trial is to judge, by its id; why there is none; or None: its agent runs."""


class KeptWorkExecutor:
    """Hands each attempt a copy of what an agent left, and lets only its grader run."""

    def __init__(self, inner: Executor, find: FindWork, paths: RunPaths) -> None:
        """Stand in front of the executor that runs graders, and agents where no work was kept."""
        self._inner = inner
        self._find = find
        self._paths = paths

    async def preflight(self) -> tuple[Check, ...]:
        """What the graders need."""
        return await self._inner.preflight()

    def outlives_runner(self, assignment: Assignment) -> bool:
        """Whether only a survivor can be taken up: of a judgement of kept work there is never one."""
        return self._find(assignment.trial_id) is not None or self._inner.outlives_runner(assignment)

    async def carry_out(
        self, assignment: Assignment, notes: Notes, survivor: Survivor | None = None
    ) -> Completion:
        """Grade a copy of what the agent of an earlier run left, where there is one to grade."""
        match self._find(assignment.trial_id):
            case None:
                return await self._inner.carry_out(assignment, notes, survivor)
            case Failed() as failure:
                return _complete(assignment, failure)
            case KeptWork() as work:
                await asyncio.to_thread(self._copy, work, assignment)
                return await self._judge(work, assignment, notes)

    async def _judge(self, work: KeptWork, assignment: Assignment, notes: Notes) -> Completion:
        if work.was_wrapper_killed:
            return _complete(assignment, fail_ungraded("wrapper_killed"), work.agent)
        standing = stand_at_barrier(assignment, BarrierNote(agent=work.agent))
        done = await self._inner.carry_out(assignment, notes, standing)
        # Nobody died, and no agent ran: readers are to count neither a crash nor what the agent had used.
        timing = msgspec.structs.replace(done.timing, adopted=False, usage={})
        return msgspec.structs.replace(done, timing=timing)

    async def release(self, assignment: Assignment, drop: Leavings) -> None:
        """As the policy says."""
        await self._inner.release(assignment, drop)

    async def survivors(self) -> tuple[Survivor, ...]:
        """What lives on of attempts whose agents run; judgements of kept work are not taken up."""
        found = await self._inner.survivors()
        return tuple(survivor for survivor in found if self._find(survivor.trial_id) is None)

    async def reap(self, keep: frozenset[str]) -> int:
        """Whatever graders left."""
        return await self._inner.reap(keep)

    async def close(self) -> None:
        """Close what stands behind."""
        await self._inner.close()

    def _copy(self, work: KeptWork, assignment: Assignment) -> None:
        target = self._paths.attempt(assignment.trial_id, assignment.attempt)
        set_aside(target)
        for name in COPIED:
            if (work.folder / name).is_dir():
                shutil.copytree(work.folder / name, target / name, symlinks=True)


def _complete(assignment: Assignment, end: AttemptEnd, agent: PhaseFact | None = None) -> Completion:
    """The completion of an attempt that needs no sandbox."""
    now = stamp(datetime.now(UTC))
    timing = AttemptTiming(
        attempt=assignment.attempt,
        started_at=now,
        ended_at=now,
        host="",
        sandbox="none",
        message=end.message if isinstance(end, Failed) else None,
    )
    return msgspec.structs.replace(complete(assignment, end, timing), agent=agent)
