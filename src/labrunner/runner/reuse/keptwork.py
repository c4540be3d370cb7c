"""Judging work that agents of earlier runs left: a copy of it goes to the grader, and no agent runs.

Rules: the source is only read; what was kept is copied before a grader sees it, and compared with what was
kept: a workspace that a power cut or a person changed since is missing data, never a fail. Whatever is wrong
with one workspace concerns its trial alone. An agent that ended its own sandbox has failed whatever a grader
would say. A judgement that a crash cut short is begun anew.
"""

import asyncio
import hashlib
import shutil
import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, TypeAlias

import msgspec

from labrunner.errors import AttemptFailed, SetupFailed
from labrunner.executor.door import Discard, Executor
from labrunner.files.layering.layernote import LAYER, PATCH_FILE
from labrunner.files.strangers.copying import copy_tree
from labrunner.files.strangers.sealing import digest_tree
from labrunner.records.barrier import BarrierNote
from labrunner.records.completion import AttemptEnd, AttemptTiming, Completion, Failed, PhaseFact
from labrunner.records.encoding.canonical import stamp
from labrunner.runner.reuse.regradable import CHANGED, UNREADABLE
from labrunner.runner.reuse.reuse import ReusePlan
from labrunner.sandbox.door import Check, Survivor
from labrunner.store.layout import RunPaths
from labrunner.store.reading.run_state import iter_finished
from labrunner.trial.assignment import Assignment, Notes
from labrunner.trial.classification import fail_ungraded, spoilt
from labrunner.trial.collecting.recorded_calls import RECORDED
from labrunner.trial.ledger import complete, stand_at_barrier
from labrunner.trial.preparation import set_aside

COPIED: Final = ("in", "workspace", "out", "state")


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptWork:
    """What an agent of an earlier run left, and how it ended."""

    folder: Path
    """Of the attempt."""
    agent: PhaseFact
    was_wrapper_killed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class _Recorded:
    """What a run says of a workspace that it kept."""

    digest: str | None
    is_masked: bool
    layer: str | None = None
    """The digest of what was kept of a folder of the image."""


class _Records:
    """What the sources say of their workspaces; each is read once, when it is first needed."""

    def __init__(self) -> None:
        self._known: dict[Path, dict[tuple[str, int], _Recorded]] = {}
        self._reading = threading.Lock()

    def find(self, attempt: Path) -> _Recorded:
        """What is recorded of an attempt's workspace."""
        root = attempt.parents[2]
        with self._reading:
            if root not in self._known:
                self._known[root] = _read_records(RunPaths(root))
        unknown = _Recorded(digest=None, is_masked=False)
        return self._known[root].get((attempt.parent.name, int(attempt.name)), unknown)


def _read_records(paths: RunPaths) -> dict[tuple[str, int], _Recorded]:
    return {
        (rows.trial_id, timing.attempt): _Recorded(
            digest=timing.workspace_digest,
            is_masked=any(name.startswith(("workspace/", LAYER)) for name in timing.masked),
            layer=next((ref.digest for ref in timing.logs if ref.path == LAYER), None),
        )
        for rows in iter_finished(paths)
        for timing in rows.timing.attempts
    }


FindWork: TypeAlias = Callable[[str], KeptWork | Failed | None]
"""The work that a trial is to judge, by its id; why there is none; or None: its agent runs."""


class KeptWorkExecutor:
    """Hands each attempt a copy of what an agent left, and lets only its grader run."""

    def __init__(self, inner: Executor, find: FindWork, paths: RunPaths) -> None:
        """Stand in front of the executor that runs graders, and agents where no work was kept."""
        self.inner = inner
        self._find = find
        self._paths = paths
        self._records = _Records()
        self.masked: set[str] = set()
        """Trials whose kept workspace had secrets in it, which a grader does not see any more."""

    async def preflight(self) -> tuple[Check, ...]:
        """What the graders need."""
        return await self.inner.preflight()

    def outlives_runner(self, assignment: Assignment) -> bool:
        """Whether only a survivor can be taken up: of a judgement of kept work there is never one."""
        return self._find(assignment.trial_id) is not None or self.inner.outlives_runner(assignment)

    async def carry_out(
        self, assignment: Assignment, notes: Notes, survivor: Survivor | None = None
    ) -> Completion:
        """Grade a copy of what the agent of an earlier run left, where there is one to grade."""
        match self._find(assignment.trial_id):
            case None:
                return await self.inner.carry_out(assignment, notes, survivor)
            case Failed() as failure:
                return _complete(assignment, failure)
            case KeptWork() as work:
                try:
                    await asyncio.to_thread(self._copy, work, assignment)
                except AttemptFailed as failure:
                    return _complete(assignment, spoilt(failure), work.agent)
                return await self._judge(work, assignment, notes)

    async def _judge(self, work: KeptWork, assignment: Assignment, notes: Notes) -> Completion:
        if work.was_wrapper_killed:
            return _complete(assignment, fail_ungraded("wrapper_killed"), work.agent)
        standing = stand_at_barrier(assignment, BarrierNote(agent=work.agent))
        done = await self.inner.carry_out(assignment, notes, standing)
        # Nobody died, and no agent ran: readers are to count neither a crash nor what the agent had used.
        timing = msgspec.structs.replace(done.timing, adopted=False, usage={})
        return msgspec.structs.replace(done, timing=timing)

    async def release(self, assignment: Assignment, drop: Discard) -> None:
        """As the policy says."""
        await self.inner.release(assignment, drop)

    async def survivors(self) -> tuple[Survivor, ...]:
        """What lives on of attempts whose agents run; judgements of kept work are not taken up."""
        found = await self.inner.survivors()
        return tuple(survivor for survivor in found if self._find(survivor.trial_id) is None)

    async def reap(self, keep: frozenset[str]) -> int:
        """Whatever graders left."""
        return await self.inner.reap(keep)

    async def close(self) -> None:
        """Close what stands behind."""
        await self.inner.close()

    def _copy(self, work: KeptWork, assignment: Assignment) -> None:
        target = self._paths.attempt(assignment.trial_id, assignment.attempt)
        with SetupFailed.during(UNREADABLE, f"copying what was kept in {work.folder}"):
            set_aside(target)
            for name in COPIED:
                if (work.folder / name).is_dir():
                    copy_tree(work.folder / name, target / name)
            for name in (*RECORDED, LAYER, PATCH_FILE):
                copy_recorded(work.folder / name, target / name)
            self._compare(work, assignment)

    def _compare(self, work: KeptWork, assignment: Assignment) -> None:
        recorded = self._records.find(work.folder)
        if recorded.digest is not None and digest_tree(work.folder / "workspace") != recorded.digest:
            raise _changed(work.folder / "workspace")
        if recorded.layer is not None and _digest_file(work.folder / LAYER) != recorded.layer:
            raise _changed(work.folder / LAYER)
        if recorded.is_masked:
            self.masked.add(assignment.trial_id)


def _changed(path: Path) -> SetupFailed:
    told = f"{path} does not hold what was kept: a power cut, or somebody, has changed it since"
    return SetupFailed(CHANGED, f"{told}; run the agent again with: lab retry")


def _digest_file(path: Path) -> str | None:
    try:
        if path.is_symlink():
            return None
        with path.open("rb") as file:
            return f"sha256:{hashlib.file_digest(file, 'sha256').hexdigest()}"
    except FileNotFoundError:
        return None


def copy_recorded(source: Path, target: Path) -> None:
    """Copy what the gateway recorded of the agent: how it ended, and what it said, is known by that."""
    if source.is_file() and not source.is_symlink():
        shutil.copyfile(source, target, follow_symlinks=False)


def judging(reuse: ReusePlan, executor: Executor, paths: RunPaths) -> Executor:
    """The executor that judges kept work anew where a plan says so, and runs agents elsewhere."""
    works = {
        work.trial_id: KeptWork(
            folder=reuse.sources[work.source].paths.attempt(work.trial_id, work.attempt),
            agent=work.agent,
            was_wrapper_killed=work.was_wrapper_killed,
        )
        for work in reuse.again.values()
    }
    return KeptWorkExecutor(executor, works.get, paths) if works else executor


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
