"""An executor whose trials do nothing: each call returns at once what a trial of this size would report."""

import asyncio
from typing import Final

from labrunner.executor.door import Discard
from labrunner.records.barrier import BarrierNote
from labrunner.records.completion import (
    AttemptTiming,
    Completion,
    Evaluator,
    FileRef,
    Graded,
    PhaseFact,
)
from labrunner.records.encoding.canonical import digest
from labrunner.sandbox.door import Check, Survivor
from labrunner.trial.assignment import Assignment, Notes

_FILE: Final = digest("a file")
_ENDED: Final = PhaseFact(exit_status=0)
_TIMING: Final = AttemptTiming(
    attempt=1,
    started_at="2026-01-01T00:00:00.000Z",
    ended_at="2026-01-01T00:00:00.250Z",
    host="bench",
    sandbox="process",
    phases_s={"prepare": 0.001, "agent": 0.1, "barrier": 0.001, "grader": 0.1, "collect": 0.002},
    limits={"cpus": None, "memory_mb": 2048, "pids": None, "disk_mb": 10240},
    usage={"cpu_s": 0.01, "max_rss_mb": 4.5},
    logs=(FileRef(path="logs/agent.stdout", digest=_FILE, size=17),),
)


def complete(assignment: Assignment) -> Completion:
    """What a trial that passed reports."""
    return Completion(
        token=assignment.token,
        schedule_idx=assignment.slot.schedule_idx,
        trial_id=assignment.trial_id,
        attempt=assignment.attempt,
        end=Graded(
            verdict="pass",
            primary_metric_name="score",
            primary_metric_value=1.0,
            evaluator=Evaluator(name="grader"),
            metrics={"score": 1.0},
        ),
        agent=_ENDED,
        grader=_ENDED,
        grader_tries=1,
        barrier="process_tree",
        files=(FileRef(path="out/benchmark_score.json", digest=_FILE, size=13),),
        timing=_TIMING,
    )


_AT_BARRIER: Final = BarrierNote(agent=PhaseFact(exit_status=0))


class IdleExecutor:
    """Carries nothing out."""

    def __init__(self, takes_s: float = 0.0) -> None:
        """Let each attempt take so long; by default no time at all."""
        self._takes_s = takes_s

    async def preflight(self) -> tuple[Check, ...]:
        """Nothing to prove."""
        return ()

    def outlives_runner(self, assignment: Assignment) -> bool:
        """Nothing goes on."""
        del assignment
        return False

    async def carry_out(
        self, assignment: Assignment, notes: Notes, survivor: Survivor | None = None
    ) -> Completion:
        """Complete in its time, after the notes that every attempt makes on its way."""
        del survivor
        if self._takes_s:
            await asyncio.sleep(self._takes_s)
        await notes.barrier_held(assignment.token, _AT_BARRIER)
        await notes.grader_starting(assignment.token)
        return complete(assignment)

    async def release(self, assignment: Assignment, drop: Discard) -> None:
        """Nothing was left."""
        del assignment, drop

    async def survivors(self) -> tuple[Survivor, ...]:
        """Nobody."""
        return ()

    async def reap(self, keep: frozenset[str]) -> int:
        """Nothing is there."""
        del keep
        return 0

    async def close(self) -> None:
        """Nothing is open."""
