import asyncio
from pathlib import Path

import pytest

from labrunner.errors import SandboxFailed
from labrunner.sandbox.door import AttemptFolders, Phase, PhaseEnd
from labrunner.sandbox.fake import FakeMaker
from tests.kit.sandbox.place import make_place, sh


async def test_phases_run_in_order_over_the_same_folders(tmp_path: Path) -> None:
    seen: list[str] = []

    def script(phase: Phase, folders: AttemptFolders) -> PhaseEnd:
        seen.append(phase.name)
        (folders.workspace / phase.name).touch()
        return PhaseEnd(exit_status=0)

    place = make_place(FakeMaker(script=script), tmp_path / "a")
    async with place.open() as sandbox:
        run = await sandbox.run_agent(sh("", name="setup"), sh(""))
        await sandbox.run_grader(sh("", name="grader"))
    assert seen == ["setup", "agent", "grader"]
    assert run.agent == PhaseEnd(exit_status=0)
    assert sorted(path.name for path in place.folders.workspace.iterdir()) == ["agent", "grader", "setup"]


async def test_no_agent_after_a_failed_setup(tmp_path: Path) -> None:
    place = make_place(FakeMaker(script=lambda phase, folders: PhaseEnd(exit_status=1)), tmp_path / "a")
    async with place.open() as sandbox:
        run = await sandbox.run_agent(sh("", name="setup"), sh(""))
    assert run.setup == PhaseEnd(exit_status=1)
    assert run.agent is None


async def test_a_script_that_waits_is_timed_out(tmp_path: Path) -> None:
    async def script(phase: Phase, folders: AttemptFolders) -> PhaseEnd:
        await asyncio.Event().wait()
        return PhaseEnd(exit_status=0)

    end = await make_place(FakeMaker(script=script), tmp_path / "a").run(sh("", timeout_s=0.01))
    assert (end.timed_out, end.exit_status) == (True, None)


async def test_a_scripts_own_time_out_is_not_ours(tmp_path: Path) -> None:
    async def script(phase: Phase, folders: AttemptFolders) -> PhaseEnd:
        raise TimeoutError

    with pytest.raises(TimeoutError):
        await make_place(FakeMaker(script=script), tmp_path / "a").run(sh(""))


async def test_a_script_may_be_a_sandbox_that_fails(tmp_path: Path) -> None:
    def script(phase: Phase, folders: AttemptFolders) -> PhaseEnd:
        raise SandboxFailed("launch", "gone")

    with pytest.raises(SandboxFailed, match="gone"):
        await make_place(FakeMaker(script=script), tmp_path / "a").run(sh(""))
