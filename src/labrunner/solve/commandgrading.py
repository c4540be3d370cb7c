"""A Python task's grader that is a command: brought at the barrier, run in the sandbox, read strictly."""

import asyncio
from dataclasses import dataclass

from labrunner.errors import GraderFailed
from labrunner.records.completion import PhaseFact
from labrunner.sandbox.door import GuestPaths, PhaseEnd, Sandbox
from labrunner.solve.ledger import make_fact
from labrunner.trial import classification, phases, preparation
from labrunner.trial.assignment import AttemptScene, Notes
from labrunner.trial.handedin import Refusal, read_plain
from labrunner.trial.judgement import SCORE_CAP, Identity, Judgement, judge
from labrunner.trial.masking import Masker
from labrunner.trial.phases import AgentEnding


@dataclass(slots=True, kw_only=True)
class CommandGrading:
    """One attempt's grading by a command."""

    scene: AttemptScene
    notes: Notes
    masker: Masker
    end: PhaseFact | None = None
    tries: int = 0
    seconds: float = 0.0

    async def run(self, place: Sandbox, guest: GuestPaths, ending: AgentEnding) -> Judgement:
        """Run the grader until it gives a judgement. Raises GraderFailed when its retries are used up."""
        retries = self.scene.task.grader.retries
        await asyncio.to_thread(preparation.bring_grader, self.scene.task, self.scene.folders)
        while True:
            self.tries += 1
            await asyncio.to_thread(preparation.clear_verdicts, self.scene.folders)
            phase = phases.grader_phase(self.scene, guest, ending, tries_left=retries + 1 - self.tries)
            await self.notes.grader_starting(self.scene.assignment.token)
            self._note(await place.run_grader(phase))
            try:
                return await asyncio.to_thread(self._judged)
            except GraderFailed:
                if self.tries > retries:
                    raise

    def _note(self, end: PhaseEnd) -> None:
        self.seconds += end.seconds
        self.end = make_fact(end)

    def _judged(self) -> Judgement:
        if failure := classification.grader_failure(self.end or PhaseFact()):
            raise GraderFailed(*failure)
        assignment = self.scene.assignment
        identity = Identity(
            ids=self.scene.ids, schedule_idx=assignment.slot.schedule_idx, attempt=assignment.attempt
        )
        score = self._read("benchmark_score.json")
        return judge(score, identity, pass_at=self.scene.task.grader.pass_at)

    def _read(self, name: str) -> bytes | Refusal:
        data = read_plain(self.scene.folders.out, name, cap=SCORE_CAP)
        return self.masker.mask(data)[0] if isinstance(data, bytes) else data
