"""A grader that is a command: run behind the barrier until it gives a judgement, and read strictly."""

import asyncio
from dataclasses import dataclass

from labrunner.errors import GraderFailed
from labrunner.files.strangers.hostile import read_masked
from labrunner.records.completion import PhaseFact, Prediction
from labrunner.sandbox.door import GuestPaths, Sandbox
from labrunner.trial import classification, phases, preparation
from labrunner.trial.assignment import Notes
from labrunner.trial.judgement import SCORE_CAP, Identity, Judgement, judge, read_prediction
from labrunner.trial.ledger import Ledger
from labrunner.trial.phases import AgentEnding


@dataclass(frozen=True, slots=True, kw_only=True)
class Grading:
    """One attempt's grading; its facts go into the ledger."""

    ledger: Ledger
    notes: Notes
    tries_before: int = 0
    """Of a runner before us; the last of them is still under way."""
    reads_prediction: bool = True

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
            phase = phases.grader_phase(scene, guest, ending, tries_left=left)
            if not is_under_way:
                await self.notes.grader_starting(scene.assignment.token)
            is_under_way = False
            ledger.note_grader(await sandbox.run_grader(phase))
            try:
                return await asyncio.to_thread(self._read_judgement)
            except GraderFailed:
                if ledger.grader_tries > retries:
                    raise
            await asyncio.to_thread(preparation.clear_verdicts, scene.folders)

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
