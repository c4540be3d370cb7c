"""64 trials at once, by the real runner and the gateway's process, before a provider that takes its time."""

from collections.abc import AsyncIterator
from decimal import Decimal
from pathlib import Path
from random import Random

import pytest

from labrunner.experiment.resolved import AgentLimits
from labrunner.gateway.recording.calljournal import read_calls
from labrunner.policy.budget import Budget
from tests.kit.gateway.experiments import CLIENT, Setting, run
from tests.kit.gateway.provider import Provider, run_provider

CAP = 0.06
"""143 answers of the kit would take more, and 64 trials ask for 256."""


@pytest.fixture
async def provider() -> AsyncIterator[Provider]:
    async with run_provider() as running:
        running.dice = Random(7)
        yield running


@pytest.mark.timeout(300)
async def test_64_trials_at_once_keep_the_budget_and_the_connections(
    tmp_path: Path, provider: Provider
) -> None:
    setting = Setting(
        kind="process",
        url=provider.url,
        agent=CLIENT + "for _ in range(4): ask()\nopen('answer.txt', 'w').write('done')",
        tasks=64,
        limits=AgentLimits(requests=4),
        entry={"max_connections": 5},
        policy={"max_concurrency": 64, "budget": Budget(cost_usd=CAP, tokens=None)},
        timeout_s=200.0,
    )
    ran = await run(setting.make(), tmp_path)
    calls = [call for folder in ran.paths.trial_folders.glob("*/*") for call in read_calls(folder)]
    spent = sum(Decimal(str(call.cost_usd or 0)) for call in calls)
    answered = [call for call in calls if call.end == "answered"]
    assert spent == len(answered) * Decimal("0.00042") <= Decimal(str(CAP))
    # What is left is less than a request sets aside.
    assert Decimal(str(CAP)) - spent < Decimal("0.0027")
    assert len(answered) == len(provider.got)
    assert provider.peak <= 5
    assert ran.end.is_used_up
