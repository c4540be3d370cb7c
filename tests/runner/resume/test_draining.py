from pathlib import Path

import pytest

from labrunner.errors import SandboxFailed
from labrunner.runner.resume.draining import drain
from labrunner.runner.start import RunOptions
from labrunner.sandbox.door import Survivor
from labrunner.sandbox.fake import FakeMaker
from labrunner.sandbox.marks import RunMark
from tests.kit.runner.running import Stage, make_sums


class Unreachable(FakeMaker):
    """A maker whose engine does not answer."""

    closed = 0

    async def survivors(self, mark: RunMark) -> tuple[Survivor, ...]:
        raise SandboxFailed("engine", "no answer")

    async def close(self) -> None:
        Unreachable.closed += 1


async def test_an_engine_that_does_not_answer_is_let_go_of_when_a_run_is_drained(tmp_path: Path) -> None:
    end = await Stage(tmp_path).run(make_sums(tasks=1, variants=1, replications=1))
    end.paths.status.unlink()  # as after a crash
    options = RunOptions(runs_dir=tmp_path, secrets={}, make=lambda kind: Unreachable())
    with pytest.raises(SandboxFailed):
        await drain(end.paths, options)
    assert Unreachable.closed == 1
