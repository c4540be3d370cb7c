"""One attempt of a Python task: sample, setup, solvers, barrier, scorers, transcript.

Rules as for every attempt (`trial/ending`). What is cancelled passes through after everything of the attempt
has ended and its transcript lies in its folder. Here what the code of a task raises becomes a record.
"""

import asyncio
import time
import traceback
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial

from labrunner.errors import AttemptFailed, SandboxFailed, SystemBroken
from labrunner.executor.cargo import LendsConnections
from labrunner.files.strangers.masking import Masker
from labrunner.gateway.recording.calljournal import CALLS
from labrunner.records.cause import Cause
from labrunner.records.completion import AttemptEnd, Cancelled, Completion, Failed, FileRef, Graded
from labrunner.sandbox.door import GuestPaths, SandboxMaker
from labrunner.sandbox.execution import ExecSandbox
from labrunner.solve.library.solvers import as_conversation
from labrunner.solve.models.call_log import write_rows
from labrunner.solve.models.environment import SandboxEnvironment
from labrunner.solve.models.generation import generate_state
from labrunner.solve.models.mailbox import Mailbox
from labrunner.solve.models.model_pool import ModelPool
from labrunner.solve.models.surroundings import Running, as_current
from labrunner.solve.resolving.sample_rows import read_sample
from labrunner.solve.resolving.task_resolution import LiveTask
from labrunner.solve.running.lane import AbandonedLane, Crowded, Lanes
from labrunner.solve.running.python_ledger import SolveLedger
from labrunner.solve.running.python_tape import open_spoken
from labrunner.solve.running.transcript_file import leave, store
from labrunner.solve.scoring.verdict import Finding, blame, grade, mask_score, settle_score, write_in_full
from labrunner.solve.values.meter import LimitExceeded, Meter
from labrunner.solve.values.sample import Choices, Target
from labrunner.solve.values.score import Score
from labrunner.solve.values.state import TaskState
from labrunner.solve.values.task_folder import inside
from labrunner.solve.values.transcript import Transcript
from labrunner.store.buffering.transcripts import TRANSCRIPT
from labrunner.store.reading.fullscores import FULL_SCORES
from labrunner.trial import classification, phases, preparation
from labrunner.trial.assignment import AttemptScene, Notes
from labrunner.trial.collecting.collection import Collected, collect, keeps_workspace
from labrunner.trial.collecting.cut_off import redact_cut_off
from labrunner.trial.collecting.result_file import hear
from labrunner.trial.ending import reach_end
from labrunner.trial.grading import Grading
from labrunner.trial.judgement import Judgement
from labrunner.trial.ledger import make_fact


@dataclass(frozen=True, slots=True, kw_only=True)
class Workshop:
    """What all attempts of one run share."""

    live: LiveTask
    pool: ModelPool
    home: Mailbox
    """Of the loop that attempts are carried out in."""
    lanes: Lanes
    masker: Masker
    maker: SandboxMaker | None
    """None for tasks without a sandbox."""


class SolveAttempt:
    """One attempt under way."""

    def __init__(self, scene: AttemptScene, shop: Workshop, notes: Notes) -> None:
        """Take what is to be carried out."""
        self._scene = scene
        self._shop = shop
        self._notes = notes
        self._transcript = Transcript(
            lambda seq, line: notes.add_event(scene.assignment, seq, line), shop.masker
        )
        meter = Meter(shop.live.limits, time.monotonic)
        self._scores: dict[str, Score] | None = None
        self._in_full: bytes | None = None
        """Scores that a row has no room for."""
        self._ledger = SolveLedger(
            scene=scene, masker=shop.masker, meter=meter, is_command=shop.live.command is not None
        )

    async def carry_out(self) -> Completion:
        """Carry it out and say how it ended."""
        end = await reach_end(
            self._reach_end(),
            self._scene,
            self._notes,
            self._ledger.masker,
            tell=self._note_failure,
            leave=lambda: leave(self._scene.folders.root, self._transcript.close()),
        )
        missed = self._ledger.calls.find_miss()
        if missed is not None and not isinstance(end, Cancelled):
            # Whatever the task's code made of it: from there on it is not what is replayed.
            end = Failed(cause=Cause.REPLAY, reason="replay_miss", message=missed.message)
        return await self._complete(end)

    async def _reach_end(self) -> AttemptEnd:
        attempt = self._make_running()
        with as_current(attempt), inside(self._shop.live.folder):
            if self._shop.maker is None:
                # One visit to the lane for both, where no clock must be stopped in between.
                at_once = not self._shop.live.limits.has_clock
                return await self._solve(attempt, at_once=at_once) or await self._score(attempt, None)
            async with self._enter(self._shop.maker) as (place, guest):
                if end := await self._work_in(attempt, place, guest):
                    return end
                return await self._score_in(attempt, place, guest)

    def _make_running(self) -> Running:
        scene, live = self._scene, self._shop.live
        model = live.model.name if live.model else None
        self._transcript.add(
            "start",
            sample=scene.task.id,
            epoch=scene.ids.repl_idx + 1,
            attempt=scene.assignment.attempt,
            model=model,
        )
        return Running(
            trial_id=scene.assignment.trial_id,
            home=self._shop.home,
            transcript=self._transcript,
            meter=self._ledger.meter,
            pool=self._shop.pool,
            model=live.model,
            state=first_state(scene, model or "none"),
            calls=self._ledger.calls,
            tape=open_spoken(scene),
            lender=self._notes if isinstance(self._notes, LendsConnections) else None,
        )

    async def _work_in(self, attempt: Running, place: ExecSandbox, guest: GuestPaths) -> AttemptEnd | None:
        """The agent's part in a sandbox, up to the barrier; the attempt's end, if that decides it already."""
        ledger = self._ledger
        setup, agent = phases.setup_phase(self._scene, guest), phases.agent_phase(self._scene, guest)
        if ledger.is_command:
            ledger.note_run(await place.run_agent(setup, agent))
            ledger.ended_by = ledger.solving_facts().ended_by
            ledger.note_word(await asyncio.to_thread(hear, self._scene.folders.out))
            failed = self._setup_failure()
            if not failed:
                await place.begin(None, agent)
        else:
            with ledger.timing("setup"):
                end = await place.begin(setup, agent)
            ledger.setup = None if end is None else make_fact(end)
            failed = self._setup_failure() or await self._solve_in(attempt, place)
        policy = self._scene.context.experiment.grade_on_agent_failure
        return failed or classification.end_before_grading(
            ledger.solving_facts(), grade_on_agent_failure=policy
        )

    def _setup_failure(self) -> Failed | None:
        setup = self._ledger.setup
        return None if setup is None else classification.setup_failure(setup)

    async def _solve_in(self, attempt: Running, place: ExecSandbox) -> Failed | None:
        """Let the solvers use a sandbox, and take it away from whatever they left."""
        async with self._lend(attempt, place) as environment:
            failed = await self._solve(attempt)
            with self._ledger.timing("barrier"):
                self._ledger.note_barrier(await environment.end_all())
        return failed

    async def _solve(self, attempt: Running, *, at_once: bool = False) -> Failed | None:
        """Run the solvers within the limits, and the scorers `at_once`; how they failed, if they did."""
        try:
            with self._ledger.timing("agent"):
                if self._shop.live.limits.has_clock:
                    await self._within_limits(attempt)
                else:
                    await self._visit_lane(attempt, at_once=at_once)
        except AbandonedLane as error:
            raise asyncio.CancelledError from error
        except LimitExceeded as limit:
            self._ledger.ended_by = limit.kind
            self._transcript.add("limit", limit=limit.kind, message=str(limit))
        except Exception as error:  # noqa: BLE001 - whatever a task's code raises becomes a record
            return self._note_failure(error, "scoring" if attempt.meter.is_scoring else "solving")
        return None

    async def _within_limits(self, attempt: Running) -> None:
        """Run the solvers in a lane, timed from here: a lane that blocks can't hold its own clock."""
        limits, meter, loop = self._shop.live.limits, self._ledger.meter, asyncio.get_running_loop()
        clock, work = asyncio.timeout(limits.time_s), asyncio.timeout(limits.working_s)
        keepers: list[str] = []

        def on_waiting(is_waiting: bool) -> None:
            left = meter.working_left_s
            if left is not None and not work.expired():
                work.reschedule(None if is_waiting else loop.time() + left)

        try:
            async with clock, work:
                meter.on_waiting = on_waiting
                await self._visit_lane(attempt, on_kept=keepers.append)
        except (TimeoutError, AbandonedLane) as error:
            if keepers and (clock.expired() or work.expired()):
                raise Crowded(keepers[0]) from error
            if clock.expired():
                raise LimitExceeded("time", f"the limit is {limits.time_s:g} s") from error
            if work.expired():
                told = f"the limit is {limits.working_s:g} s of working time"
                raise LimitExceeded("working_time", told) from error
            raise
        finally:
            meter.on_waiting = None

    async def _visit_lane(
        self, attempt: Running, *, at_once: bool = False, on_kept: Callable[[str], None] = lambda _: None
    ) -> None:
        work = partial(self._take_steps, attempt, at_once=at_once)
        await self._shop.lanes.run(attempt.trial_id, work, on_kept)

    async def _take_steps(self, attempt: Running, *, at_once: bool) -> None:
        for step in self._shop.live.steps:
            attempt.state = await step(attempt.state, generate_state)
            if attempt.state.completed:
                break
        if at_once:
            self._scores = await self._ask_judges(attempt)

    async def _score_in(self, attempt: Running, place: ExecSandbox, guest: GuestPaths) -> AttemptEnd:
        """Let every scorer speak, the command first: it must not see what others left."""
        judgement = None
        self._ledger.barrier = place.barrier  # what the calls did may have decided it
        if self._ledger.has_lost_work:
            return classification.broken(self._ledger.solving_facts())
        if self._shop.live.grader is not None:
            await asyncio.to_thread(self._bring_grader)
            grading = Grading(ledger=self._ledger, notes=self._notes, reads_prediction=False)
            try:
                judgement, _ = await grading.run(place, guest, self._ledger.solving_facts().ending)
            except SystemBroken:
                return classification.broken(self._ledger.solving_facts())
            value = judgement.primary_metric_value
            self._transcript.add("score", scorer="command", value=value, verdict=judgement.verdict)
        async with self._lend(attempt, place):
            return await self._score(attempt, judgement)

    @asynccontextmanager
    async def _lend(self, attempt: Running, place: ExecSandbox) -> AsyncIterator[SandboxEnvironment]:
        """Let code use the sandbox; whatever it ends with, no call of its is under way afterwards."""
        attempt.environment = environment = SandboxEnvironment(place, attempt)
        try:
            yield environment
        finally:
            attempt.environment = None
            await environment.leave()

    def _bring_grader(self) -> None:
        preparation.bring_grader(self._scene.task, self._scene.folders)
        preparation.clear_verdicts(self._scene.folders)

    async def _score(self, attempt: Running, judgement: Judgement | None) -> AttemptEnd:
        """Ask the scorers in Python, and join what they say with a command's word."""
        ledger, scores = self._ledger, self._scores
        try:
            if scores is None:
                scores = await self._shop.lanes.run(attempt.trial_id, lambda: self._ask_judges(attempt))
        except AbandonedLane:
            raise asyncio.CancelledError from None
        except Exception as error:  # noqa: BLE001 - whatever a task's code raises becomes a record
            return self._note_failure(error, "scoring")
        mask = self._shop.masker.mask_text
        finding = Finding(
            completion=None if ledger.is_command else mask(attempt.state.output.completion),
            ended_by=ledger.ended_by,
            flags=("system_changed",) if ledger.run.system_changes else (),
        )
        masked = {name: mask_score(score, self._shop.masker) for name, score in scores.items()}
        end = grade(masked, judgement, finding)
        self._in_full = write_in_full(masked)
        return end

    async def _ask_judges(self, attempt: Running) -> dict[str, Score]:
        scores: dict[str, Score] = {}
        attempt.meter.is_scoring = True
        transcript, state = attempt.transcript, attempt.state
        spoken, said = transcript.number(state.messages), transcript.number([state.output.message])
        transcript.add(
            "scoring",
            **transcript.go_on("messages", spoken),
            output=said[0],
            model=state.output.model,
            stop_reason=state.output.stop_reason,
        )
        with self._ledger.timing("grader"):
            for judge in self._shop.live.judges:
                said_of_it = await judge(attempt.state, attempt.state.target)
                score = scores[judge.name] = settle_score(judge.name, said_of_it)
                transcript.add(
                    "score",
                    scorer=judge.name,
                    value=score.value,
                    answer=score.answer,
                    explanation=score.explanation,
                    metadata=score.metadata,
                )
        return scores

    def _note_failure(self, error: Exception, doing: str = "") -> Failed:
        told = "".join(traceback.format_exception(error))
        failed = blame(error, doing, told)
        self._transcript.add("error", cause=failed.cause, message=failed.message, traceback=told)
        return failed

    @asynccontextmanager
    async def _enter(self, maker: SandboxMaker) -> AsyncIterator[tuple[ExecSandbox, GuestPaths]]:
        """Make the attempt's sandbox over fresh folders."""
        scene, ledger = self._scene, self._ledger
        guest = maker.guest_paths(scene.folders, scene.agent_dir)
        ledger.has_folders = True
        with ledger.timing("prepare"):
            aside = await asyncio.to_thread(preparation.lay_out, scene)
            if aside is not None:
                ledger.note_redaction(await asyncio.to_thread(redact_cut_off, aside, ledger.masker))
        async with maker.open(phases.sandbox_spec(scene)) as place:
            if not isinstance(place, ExecSandbox):
                raise SandboxFailed("no_calls", f"a {scene.variant.sandbox.kind} sandbox takes no calls")
            ledger.barrier, ledger.limits = place.barrier, dict(place.limits)
            policy = phases.policy_note(scene, ledger.limits)
            await asyncio.to_thread(preparation.write_policy, scene.folders, policy)
            yield place, guest

    async def _complete(self, end: AttemptEnd) -> Completion:
        ledger, shop = self._ledger, self._shop
        self._transcript.add("end", outcome=type(end).__name__.lower())
        kept = Collected()
        logs: tuple[FileRef, ...] = ()
        scores = self._in_full if isinstance(end, Graded) else None
        try:
            with ledger.timing("collect"):
                if ledger.has_folders:
                    keeps = keeps_workspace(self._scene.context.experiment.policy.keep.workspace, end)
                    kept = await asyncio.to_thread(collect, self._scene.folders, shop.masker, keeps)
                rows = ledger.calls.rows(self._scene.ids, self._scene.assignment.attempt)
                texts = {TRANSCRIPT: self._transcript.close()}
                if rows:
                    texts[CALLS] = write_rows(rows, shop.masker)
                if scores is not None:
                    texts[FULL_SCORES], masked = shop.masker.mask(scores)
                    kept = replace(kept, masked_secrets=kept.masked_secrets + masked)
                kept = replace(kept, masked_secrets=kept.masked_secrets + self._transcript.masked)
                is_new = not ledger.has_folders
                stored = await asyncio.to_thread(store, self._scene.folders.root, texts, is_new=is_new)
                logs = tuple(ref for ref in stored if ref.path != FULL_SCORES)
                more = tuple(ref for ref in stored if ref.path == FULL_SCORES)
                kept = replace(kept, files=(*kept.files, *more))
        except AttemptFailed as failure:
            end = classification.spoilt(failure)
            left = await asyncio.to_thread(redact_cut_off, self._scene.folders.root, shop.masker)
            ledger.note_redaction(left)
        return ledger.close(end, kept, logs)


def first_state(scene: AttemptScene, model: str) -> TaskState:
    """The state that an attempt starts from: the original sample, whatever attempts came before."""
    sample = read_sample(scene.task)
    return TaskState(
        model=model,
        sample_id=scene.task.id,
        epoch=scene.ids.repl_idx + 1,
        input=sample.input,
        messages=as_conversation(sample.input),
        target=Target(sample.target),
        choices=Choices.of(sample.choices),
        metadata=dict(sample.metadata or {}),
    )
