"""One attempt, from its empty folder to its completion: setup, agent, barrier, grader, collection.

Rules: every way out yields exactly one `Completion`, except cancellation and a disk that gave out, which
pass through after the sandbox has ended everything; this is the one place where an `AttemptFailed` becomes
a record, and where anything else that escapes is blamed on ourselves, with its traceback.
"""

import asyncio
import time
import traceback
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

import msgspec

from labrunner.errors import AttemptFailed, GraderFailed, StoreError
from labrunner.records.cause import Cause
from labrunner.records.completion import (
    AttemptEnd,
    AttemptTiming,
    Completion,
    Failed,
    Graded,
    PhaseFact,
)
from labrunner.sandbox.door import (
    AgentRun,
    GuestPaths,
    PhaseEnd,
    Sandbox,
    SandboxMaker,
    SandboxSpec,
    Survivor,
)
from labrunner.sandbox.marks import Mark
from labrunner.trial import classification, phases, preparation
from labrunner.trial.agentresult import is_agent_result, read_usage
from labrunner.trial.artifacts import copy_out
from labrunner.trial.assignment import Assignment, AttemptScene, Notes, TrialContext, set_scene
from labrunner.trial.classification import AgentFacts
from labrunner.trial.collection import RESULT_CAP, Collected, collect
from labrunner.trial.handedin import Refusal, read_plain
from labrunner.trial.judgement import SCORE_CAP, Identity, judge, read_prediction
from labrunner.trial.masking import Masker, make_masker

T = TypeVar("T")


async def carry_out(
    context: TrialContext,
    assignment: Assignment,
    maker: SandboxMaker,
    notes: Notes,
    survivor: Survivor | None = None,
) -> Completion:
    """Carry out one attempt, or go on with one that a crashed runner left, and say how it ended."""
    scene = set_scene(context, assignment)
    return await _Attempt(scene, maker, notes, survivor).carry_out()


class _Attempt:
    """What is known so far about an attempt under way."""

    def __init__(
        self, scene: AttemptScene, maker: SandboxMaker, notes: Notes, survivor: Survivor | None
    ) -> None:
        self._scene = scene
        self._maker = maker
        self._notes = notes
        self._survivor = survivor
        self._run = AgentRun(setup=None, agent=None)
        self._masker = _masker(scene)
        self._started_at = datetime.now(UTC)
        self._phases_s: dict[str, float] = {}
        self._usage: dict[str, float | int] = {}
        self._limits: dict[str, float | int | str | bool | None] = {}
        self._setup: PhaseFact | None = None
        self._agent: PhaseFact | None = None
        self._grader: PhaseFact | None = None
        self._grader_tries = 0
        self._barrier = "none"

    async def carry_out(self) -> Completion:
        end: AttemptEnd
        try:
            end = await self._reach_end()
        except AttemptFailed as failure:
            end = Failed(cause=failure.cause, reason=failure.reason, message=str(failure))
        except StoreError:
            raise
        except Exception as bug:  # noqa: BLE001 - the one place where our own bugs become records
            told = "".join(traceback.format_exception(bug))
            end = Failed(cause=Cause.RUNNER, reason="bug", message=repr(bug), traceback=told)
        if isinstance(end, Graded):
            # A failure may end the run: its place stays taken until somebody has decided.
            self._notes.sandbox_gone(self._scene.assignment.token)
        return await self._complete(end)

    async def _reach_end(self) -> AttemptEnd:
        scene = self._scene
        agent_dir = Path(scene.variant.agent.dir.path) if scene.variant.agent.dir else None
        guest = self._maker.guest_paths(scene.folders, agent_dir)
        plan = phases.sandbox_plan(scene)
        spec = SandboxSpec(
            folders=scene.folders,
            plan=plan,
            agent_dir=agent_dir,
            label=self._label(),
            mark=self._mark(),
            demands=phases.demands(scene.context.experiment, scene.task, scene.variant),
        )
        async with self._enter(spec) as sandbox:
            self._barrier = sandbox.barrier
            self._limits = dict(sandbox.limits)
            if self._survivor is None:
                policy = phases.policy_note(scene, self._limits)
                await asyncio.to_thread(preparation.write_policy, scene.folders, policy)
            end = await self._run_phases(sandbox, guest)
            await copy_out(sandbox, guest, scene.folders, scene.context.experiment.collect)
            return end

    @asynccontextmanager
    async def _enter(self, spec: SandboxSpec) -> AsyncIterator[Sandbox]:
        """Make a sandbox over fresh folders, or take over the one that is left."""
        if self._survivor is None:
            await self._timed("prepare", preparation.lay_out, self._scene)
            opened = self._maker.open(spec)
        else:
            opened = self._maker.adopt(spec, self._survivor)
        async with opened as sandbox:
            yield sandbox

    async def _run_phases(self, sandbox: Sandbox, guest: GuestPaths) -> AttemptEnd:
        setup, agent = phases.setup_phase(self._scene, guest), phases.agent_phase(self._scene, guest)
        run = await sandbox.run_agent(setup, agent)
        self._note_run(run)
        if self._setup is not None and (failed := classification.setup_failure(self._setup)):
            return failed
        facts = await self._timed("bring_grader", self._look_behind_barrier)
        if not isinstance(facts, AgentFacts):
            return facts
        if not self._grader_is_under_way():
            record = msgspec.json.encode({"agent": self._agent, "ending": facts.ending})
            await self._notes.barrier_held(self._scene.assignment.token, record)
        return await self._grade(sandbox, guest, facts)

    def _look_behind_barrier(self) -> AgentFacts | AttemptEnd:
        """See what the agent left; bring the grader's files, unless that already decides."""
        facts = self._agent_facts()
        policy = self._scene.context.experiment.grade_on_agent_failure
        if end := classification.end_before_grading(facts, grade_on_agent_failure=policy):
            return end
        if not self._grader_is_under_way():
            preparation.bring_grader(self._scene.task, self._scene.folders)
            preparation.clear_verdicts(self._scene.folders)
        return facts

    def _grader_is_under_way(self) -> bool:
        """A runner before us has started a grader: its files and its answer are not to be touched."""
        return self._survivor is not None and self._survivor.grader_tries > 0

    async def _grade(self, sandbox: Sandbox, guest: GuestPaths, facts: AgentFacts) -> Graded:
        """Run the grader until it gives a judgement or its retries are used up."""
        retries, adopted = self._scene.task.grader.retries, self._grader_is_under_way()
        self._grader_tries = self._survivor.grader_tries - 1 if self._survivor and adopted else 0
        while True:
            self._grader_tries += 1
            left = retries + 1 - self._grader_tries
            phase = phases.grader_phase(self._scene, guest, facts.ending, tries_left=left)
            if not adopted:
                await self._notes.grader_starting(self._scene.assignment.token)
            adopted = False
            end = await sandbox.run_grader(phase)
            self._grader = _fact(end)
            self._add_seconds("grader", end.seconds)
            try:
                return await asyncio.to_thread(self._judged, self._grader, facts)
            except GraderFailed:
                if self._grader_tries > retries:
                    raise
            await asyncio.to_thread(preparation.clear_verdicts, self._scene.folders)

    def _judged(self, grader: PhaseFact, facts: AgentFacts) -> Graded:
        if failure := classification.grader_failure(grader):
            raise GraderFailed(*failure)
        assignment, out = self._scene.assignment, self._scene.folders.out
        identity = Identity(
            ids=self._scene.ids,
            schedule_idx=assignment.slot.schedule_idx,
            attempt=assignment.attempt,
        )
        score = self._read(out, "benchmark_score.json", SCORE_CAP)
        judgement = judge(score, identity, pass_at=self._scene.task.grader.pass_at)
        prediction = read_prediction(self._read(out, "benchmark_prediction.json", SCORE_CAP), identity)
        return classification.graded(facts, judgement, prediction)

    def _agent_facts(self) -> AgentFacts:
        """Join how the agent ended with what it handed in."""
        agent = self._scene.variant.agent
        end = self._agent or PhaseFact()
        result = self._read(self._scene.folders.out, "result.json", RESULT_CAP)
        is_missing = isinstance(result, Refusal) and result.reason == "missing"
        is_valid = isinstance(result, bytes) and is_agent_result(result)
        if isinstance(result, bytes) and is_valid:
            self._usage |= read_usage(result)
        cause = agent.error_exit_codes.get(end.exit_status) if end.exit_status is not None else None
        return AgentFacts(
            end=end,
            has_result=is_valid,
            has_invalid_result=not is_valid and not is_missing,
            requires_result=agent.require_result,
            error_cause=Cause(cause) if cause is not None else None,
            wrapper_killed=self._run.wrapper_killed,
            changed_system=bool(self._run.system_changes),
            must_not_change_system=phases.must_not_change_system(self._scene.context.experiment),
        )

    def _read(self, folder: Path, name: str, cap: int) -> bytes | Refusal:
        data = read_plain(folder, name, cap=cap)
        return self._masker.mask(data)[0] if isinstance(data, bytes) else data

    def _note_run(self, run: AgentRun) -> None:
        self._run = run
        self._phases_s["barrier"] = run.barrier_s
        if run.setup is not None:
            self._setup = _fact(run.setup)
            self._add_seconds("setup", run.setup.seconds)
        if run.agent is not None:
            self._agent = _fact(run.agent)
            self._add_seconds("agent", run.agent.seconds)
            self._usage.update(run.agent.usage)

    async def _complete(self, end: AttemptEnd) -> Completion:
        assignment = self._scene.assignment
        try:
            keeps = self._keeps_workspace(end)
            kept = await self._timed("collect", collect, self._scene.folders, self._masker, keeps)
        except AttemptFailed as failure:
            kept = Collected(files=(), logs=(), masked_secrets=0)
            end = Failed(cause=failure.cause, reason=failure.reason, message=str(failure))
        return Completion(
            token=assignment.token,
            schedule_idx=assignment.slot.schedule_idx,
            trial_id=assignment.trial_id,
            attempt=assignment.attempt,
            end=end,
            setup=self._setup,
            agent=self._agent,
            grader=self._grader,
            grader_tries=self._grader_tries,
            barrier=self._barrier,
            files=kept.files if isinstance(end, Graded) else (),
            timing=self._timing(end, kept),
        )

    def _keeps_workspace(self, end: AttemptEnd) -> bool:
        """Whether the policy keeps what the agent left."""
        keep = self._scene.context.experiment.policy.keep.workspace
        is_good = isinstance(end, Graded) and end.verdict == "pass"
        return keep == "always" or (keep == "failed" and not is_good)

    def _timing(self, end: AttemptEnd, kept: Collected) -> AttemptTiming:
        failed = end if isinstance(end, Failed) else None
        return AttemptTiming(
            attempt=self._scene.assignment.attempt,
            started_at=stamp(self._started_at),
            ended_at=stamp(datetime.now(UTC)),
            host=self._scene.context.host,
            sandbox=self._scene.variant.sandbox.kind,
            phases_s={name: round(seconds, 6) for name, seconds in self._phases_s.items()},
            limits=self._limits,
            usage=self._usage,
            message=self._masked(failed.message) if failed else None,
            traceback=self._masked(failed.traceback) if failed and failed.traceback else None,
            logs=kept.logs,
            masked_secrets=kept.masked_secrets,
            workspace_digest=kept.workspace_digest,
            barrier=dict(self._run.facts),
            adopted=self._survivor is not None,
        )

    def _masked(self, text: str) -> str:
        return self._masker.mask(text.encode())[0].decode(errors="replace")[:16_384]

    def _label(self) -> str:
        assignment = self._scene.assignment
        return f"{self._scene.context.run_id}/{assignment.trial_id}/{assignment.attempt}/{assignment.token}"

    def _mark(self) -> Mark:
        assignment = self._scene.assignment
        return Mark(
            run=self._scene.context.mark(),
            trial_id=assignment.trial_id,
            attempt=assignment.attempt,
            token=assignment.token,
        )

    async def _timed(self, name: str, work: Callable[..., T], *args: object) -> T:
        """Do blocking work in a thread and note how long it took."""
        start = time.monotonic()
        try:
            return await asyncio.to_thread(work, *args)
        finally:
            self._add_seconds(name, time.monotonic() - start)

    def _add_seconds(self, name: str, seconds: float) -> None:
        self._phases_s[name] = self._phases_s.get(name, 0.0) + seconds


def stamp(moment: datetime) -> str:
    """A UTC time as records write it."""
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _fact(end: PhaseEnd) -> PhaseFact:
    return PhaseFact(
        exit_status=end.exit_status,
        timed_out=end.timed_out,
        oom_killed=end.oom_killed,
        over_disk=end.over_disk,
    )


def _masker(scene: AttemptScene) -> Masker:
    names = {*scene.variant.agent.secrets, *scene.task.grader.secrets}
    return make_masker({name: scene.context.secrets[name] for name in names})
