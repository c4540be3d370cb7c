"""What is under way in containers, as readers of the run's directory see it."""

import asyncio
from pathlib import Path

from labrunner.store.underway import Evidence, gather
from tests.docker.trials import PASS, Trial, shell

WAIT = "while [ ! -e /agentlab/workspace/go-{0} ]; do sleep 0.05; done"


async def test_every_phase_in_a_container_can_be_seen_from_its_folder(tmp_path: Path, ash: str) -> None:
    trial = Trial(
        root=tmp_path / "run",
        image=ash,
        agent=shell("echo hello; " + WAIT.format("agent")),
        grader=shell(f"{WAIT.format('grader')}; {PASS}"),
    )

    async def await_log(phase: str) -> Evidence:
        async with asyncio.timeout(60):
            while phase not in (seen := gather(trial.folders.root, ())).logs:
                await asyncio.sleep(0.05)
        return seen

    async with asyncio.TaskGroup() as group:
        group.create_task(trial.carry_out())
        for phase in ("agent", "grader"):
            seen = await await_log(phase)
            assert seen.wrapper == phase
            assert seen.times[phase] is not None
            (trial.folders.workspace / f"go-{phase}").write_text("")
