"""Agents in containers without a network, who find their model on their own loopback."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from labrunner.experiment.resolved import AgentLimits
from tests.kit.gateway.experiments import CLIENT, Setting, run
from tests.kit.gateway.owning import find_daemons
from tests.kit.gateway.provider import Provider, run_provider

KNOCK = """
import json, os, pathlib, socket
found = []
for port in (9701, 9702):
    try:
        socket.create_connection(("127.0.0.1", port), 2)
        found.append(port)
    except OSError:
        pass
verdict = "fail" if found else "pass"
pathlib.Path(os.environ["AGENTLAB_BENCHMARK_SCORE_PATH"]).write_text(json.dumps({"verdict": verdict}))
"""
ASK_FOR_EVER = (
    CLIENT
    + """
open("answer.txt", "w").write("begun")
while True:
    ask()
"""
)


@pytest_asyncio.fixture
async def provider() -> AsyncIterator[Provider]:
    async with run_provider() as running:
        yield running


@pytest.mark.parametrize("trust", ["standard", "strict"])
@pytest.mark.parametrize("user", [None, "app"])
async def test_an_agent_in_a_container_asks_its_model_and_its_grader_finds_the_door_closed(
    tmp_path: Path, ash: str, provider: Provider, trust: str, user: str | None
) -> None:
    plan = {"image": ash, "memory_mb": 256}
    setting = Setting(kind="docker", url=provider.url, plan=plan, grader=KNOCK, user=user)
    ran = await run(setting.make(trust=trust), tmp_path)
    [trial] = ran.trials()
    assert (trial.verdict, trial.cause) == ("pass", None)
    [call] = ran.calls()
    assert (call.end, call.cost_usd) == ("answered", 0.00042)
    assert len(provider.got) == 1
    assert find_daemons(ran.paths.root) == []


async def test_a_cap_ends_an_agent_in_a_container_at_once_and_it_is_graded(
    tmp_path: Path, ash: str, provider: Provider
) -> None:
    setting = Setting(
        kind="docker",
        url=provider.url,
        agent=ASK_FOR_EVER,
        plan={"image": ash, "memory_mb": 256},
        limits=AgentLimits(requests=3),
        timeout_s=300.0,
    )
    ran = await run(setting.make(), tmp_path)
    [trial] = ran.trials()
    assert (trial.verdict, trial.ended_by) == ("pass", "requests")
    assert [row.end for row in ran.calls()][:4] == ["answered"] * 3 + ["capped"]
