"""A grader that is a command: run behind the barrier until it gives a judgement, and read strictly.

Rule: where a grader fails in a system that the agent changed, a trial tells whose fault that is. It is run
once more there and, if it fails again, in a system that the agent never touched. If it judges there, the
agent broke what graders need: its failure, and no second try. No judgement is taken from these runs.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace

from labrunner.errors import GraderFailed, SystemBroken
from labrunner.files.strangers.hostile import read_masked
from labrunner.records.barrier import FRESH
from labrunner.records.completion import PhaseFact, Prediction
from labrunner.sandbox.door import GuestPaths, Phase, Sandbox
from labrunner.trial import classification, phases, preparation
from labrunner.trial.assignment import Notes
from labrunner.trial.judgement import SCORE_CAP, Identity, Judgement, judge, read_prediction
from labrunner.trial.ledger import Ledger
from labrunner.trial.phases import AgentEnding


def _as_it_is(phase: Phase) -> Phase:
    return phase


@dataclass(frozen=True, slots=True, kw_only=True)
class Grading:
    """One attempt's grading; its facts go into the ledger."""

    ledger: Ledger
    notes: Notes
    tries_before: int = 0
    """Of a runner before us; the last of them is still under way."""
    reads_prediction: bool = True
    furnish: Callable[[Phase], Phase] = _as_it_is
    """Gives a phase what it reaches outside its sandbox."""

    async def run(
        self, sandbox: Sandbox, guest: GuestPaths, ending: AgentEnding
    ) -> tuple[Judgement, Prediction | None]:
        """Run the grader, whose files are there. Raises GraderFailed when its retries are used up."""
        scene, ledger = self.ledger.scene, self.ledger
        retries, is_under_way = scene.task.grader.retries, self.tries_before > 0
        ledger.grader_tries = max(0, self.tries_before - 1)
        while True:
            ledger.grader_tries += 1
            left = retries + 1 - ledger.grader_tries
            phase = self.furnish(phases.grader_phase(scene, guest, ending, tries_left=left))
            if not is_under_way:
                await self.notes.grader_starting(scene.assignment.token)
            is_under_way = False
            ledger.note_grader(await sandbox.run_grader(phase))
            try:
                return await asyncio.to_thread(self._read_judgement)
            except GraderFailed as failure:
                if ledger.grader_tries > retries:
                    await self._look_for_blame(sandbox, replace(phase, may_repeat=True), failure)
                    raise
            await asyncio.to_thread(preparation.clear_verdicts, scene.folders)

    async def _look_for_blame(self, sandbox: Sandbox, phase: Phase, failure: GraderFailed) -> None:
        """Raise SystemBroken if the grader fails only in the system that the agent changed."""
        ledger = self.ledger
        if ledger.barrier == FRESH or not ledger.run.system_changes or ledger.setup is not None:
            return
        if await self._judges(sandbox, phase):
            return
        if await self._judges(sandbox, replace(phase, afresh=True, may_repeat=False)):
            told = f"{failure}, but not in a system that the agent never touched"
            raise SystemBroken("system_broken", told) from failure

    async def _judges(self, sandbox: Sandbox, phase: Phase) -> bool:
        """Whether the grader gives a judgement; what it says and how it ended is forgotten."""
        ledger, failed = self.ledger, self.ledger.grader
        await asyncio.to_thread(preparation.clear_verdicts, ledger.scene.folders)
        ledger.note_grader(await sandbox.run_grader(phase))
        try:
            await asyncio.to_thread(self._read_judgement)
        except GraderFailed:
            return False
        finally:
            ledger.grader = failed
            await asyncio.to_thread(preparation.clear_verdicts, ledger.scene.folders)
        return True

    def _read_judgement(self) -> tuple[Judgement, Prediction | None]:
        if failure := classification.grader_failure(self.ledger.grader or PhaseFact()):
            raise GraderFailed(*failure)
        scene, masker = self.ledger.scene, self.ledger.masker
        identity = Identity(
            ids=scene.ids,
            schedule_idx=scene.assignment.slot.schedule_idx,
            attempt=scene.assignment.attempt,
        )
        out = scene.folders.out
        score = read_masked(out, "benchmark_score.json", masker, cap=SCORE_CAP)
        grader = scene.task.grader
        judgement = judge(score, identity, pass_at=grader.pass_at, metric=grader.metric)
        if not self.reads_prediction:
            return judgement, None
        prediction = read_masked(out, "benchmark_prediction.json", masker, cap=SCORE_CAP)
        return judgement, read_prediction(prediction, identity)
