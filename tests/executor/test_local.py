"""Preflight of an experiment with many images."""

import asyncio
from dataclasses import dataclass
from pathlib import Path

from labrunner.executor.local import LocalExecutor
from labrunner.experiment.resolved import SandboxPlan
from labrunner.sandbox.door import NO_DEMANDS, Check, Demands
from labrunner.sandbox.fake import FakeMaker
from labrunner.trial.assignment import TrialContext
from tests.kit.builders import make_experiment, make_task

ENOUGH = 8
"""One after another, eight large images took half a minute."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MeetingMaker(FakeMaker):
    """A maker whose probes end only when many of them are under way."""

    meeting: asyncio.Barrier

    async def preflight(self, plan: SandboxPlan, demands: Demands = NO_DEMANDS) -> tuple[Check, ...]:
        del demands
        await self.meeting.wait()
        return (Check(name=plan.image or "", passed=True, message="tried"),)


async def test_many_images_are_tried_at_once_and_told_in_their_order(tmp_path: Path) -> None:
    tasks = tuple(make_task(id=f"t{n}", image=f"image:{n}") for n in range(ENOUGH))
    context = TrialContext(
        experiment=make_experiment(tasks=tasks), run_id="r", trials_dir=tmp_path, host="here", secrets={}
    )
    maker = MeetingMaker(meeting=asyncio.Barrier(ENOUGH))
    async with asyncio.timeout(30):
        checks = await LocalExecutor(context, lambda kind: maker).preflight()
    assert [check.name for check in checks] == [f"image:{n}" for n in range(ENOUGH)]
