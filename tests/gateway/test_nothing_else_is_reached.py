"""An agent in bubblewrap that tries everything: it has its model and one host, and nothing else."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from labrunner.gateway.recording.doorjournal import read_doors
from labrunner.sandbox.bubblewrap.program import works_here
from tests.kit.gateway.escaping import JUDGE, run_world
from tests.kit.gateway.experiments import Setting, run
from tests.kit.gateway.owning import find_daemons
from tests.kit.gateway.provider import Provider, run_provider


@pytest.fixture
async def provider() -> AsyncIterator[Provider]:
    async with run_provider() as running:
        yield running


@pytest.mark.bwrap
@pytest.mark.skipif(not works_here()[0], reason="bubblewrap can't run here")
async def test_nothing_else_is_reached_from_bubblewrap(tmp_path: Path, provider: Provider) -> None:
    async with run_world() as world:
        setting = Setting(
            kind="bubblewrap",
            url=provider.url,
            agent=world.write_agent(tmp_path / "the-run"),
            grader=JUDGE,
            hosts=(world.line,),
            tasks=2,
            timeout_s=300.0,
        )
        ran = await run(setting.make(), tmp_path)
        assert [trial.verdict for trial in ran.trials()] == ["pass", "pass"]
        assert set(world.came) == {"allowed"}
    for task in range(2):
        events = list(read_doors(ran.attempt(task)))
        assert {"address_not_allowed", "not_allowed", "bad_request"} <= {each.reason for each in events}
        assert [each.host for each in events if each.end == "closed"] == [world.allowed[0]]
    assert find_daemons(ran.paths.root) == []
