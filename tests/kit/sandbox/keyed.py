"""An attempt by a runner whose session has a key."""

import asyncio
import shutil
from pathlib import Path

from labrunner.sandbox.registry import make
from tests.kit.sandbox.place import make_place, phase

KEYS = Path(__file__).with_name("keys.py")


def carry_out(kind: str, root: str) -> None:
    """An attempt by a runner whose session has a key."""

    async def run() -> None:
        place = make_place(make(kind), Path(root))
        shutil.copy(KEYS, place.folders.workspace / "keys.py")
        async with place.open() as sandbox:
            python = place.paths.python
            agent = await sandbox.run_agent(None, phase(python, "keys.py", "the-agents", "agent.json"))
            grader = await sandbox.run_grader(
                phase(python, "keys.py", "the-graders", "grader.json", name="grader")
            )
        assert (agent.agent and agent.agent.exit_status, grader.exit_status) == (0, 0), place.stderr()

    asyncio.run(run())
