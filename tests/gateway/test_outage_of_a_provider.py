"""A provider that is down for a while, seen by whole runs: the breaker pauses, and no agent is blamed."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from labrunner.experiment.run_policy import BreakerPolicy
from labrunner.policy.pace import RunPace
from tests.kit.gateway.experiments import CLIENT, Ran, Setting, run
from tests.kit.gateway.provider import Behaviour, Fail, Provider, run_provider

QUICK = RunPace(first_wait_s=0.05, longest_wait_s=0.1, first_probe_s=0.1, longest_probe_s=0.2)
GIVES_UP = (
    CLIENT
    + """
said = ask()
if not said.startswith("{"):
    sys.exit(3)
open("answer.txt", "w").write(said)
"""
)
"""An agent that ends with an error of its own where its model gives none."""


@pytest.fixture
async def provider() -> AsyncIterator[Provider]:
    async with run_provider() as running:
        yield running


def make(url: str, **changes: Any) -> Setting:
    given: dict[str, Any] = {
        "kind": "process",
        "url": url,
        "agent": GIVES_UP,
        "entry": {"max_retries": 0},
        "policy": {"max_concurrency": 4},
    }
    return Setting(**{**given, **changes})


async def run_through(setting: Setting, runs_dir: Path) -> Ran:
    return await run(setting.make(), runs_dir, pace=QUICK)


@pytest.mark.parametrize("trouble", [Fail(status=503), "drop"])
async def test_a_run_pauses_while_its_provider_is_down_and_ends_with_every_trial_graded(
    tmp_path: Path, provider: Provider, trouble: Behaviour
) -> None:
    provider.plan.extend(["answer"] * 2)
    provider.plan.extend([trouble] * 7)  # enough to open the breaker with all that is in flight, then probes
    breaker = BreakerPolicy(after=3, give_up_after_s=600.0)
    policy = {"max_concurrency": 2, "retry_on_error": 1, "breaker": breaker}
    ran = await run_through(make(provider.url, tasks=6, policy=policy), tmp_path)
    assert [trial.verdict for trial in ran.trials()] == ["pass"] * 6
    # Only what failed while an answer of before was still being graded was decided on its own.
    assert sum(trial.attempt - 1 for trial in ran.trials()) <= 1
    assert ran.end.exit_code == 0
    assert len(provider.got) == 6 + 7


async def test_an_agent_that_gives_up_over_a_503_is_the_providers_failure(
    tmp_path: Path, provider: Provider
) -> None:
    provider.plan.append(Fail(status=503))
    ran = await run_through(make(provider.url), tmp_path)
    [trial] = ran.trials()
    assert (trial.outcome, trial.cause, trial.reason) == ("failed", "provider", "provider_error")
    [timing] = ran.paths.timings.read_bytes().splitlines()
    assert "exit status 3" in json.loads(timing)["attempts"][0]["message"]


async def test_a_model_that_its_provider_does_not_know_ends_the_run_at_its_first_trial(
    tmp_path: Path, provider: Provider
) -> None:
    provider.plan.extend([Fail(status=404, kind="model_not_found")] * 5)
    policy = {"max_concurrency": 1, "fail_on_error": True, "retry_on_error": 2}
    ran = await run_through(make(provider.url, tasks=5, policy=policy), tmp_path)
    [trial] = ran.trials()
    assert (trial.outcome, trial.cause, trial.reason) == ("failed", "account", "unknown_model")
    assert ran.end.exit_code == 1
    assert ran.end.status.error is not None
    assert "main knows no model 'gpt-4o'" in ran.end.status.error.message
    assert len(provider.got) == 1


async def test_an_agent_that_found_a_model_after_one_that_nobody_knows_is_graded(
    tmp_path: Path, provider: Provider
) -> None:
    provider.plan.append(Fail(status=404, kind="model_not_found"))
    agent = CLIENT + "\nask(model='misspelt')\nopen('answer.txt', 'w').write(ask())\n"
    ran = await run_through(make(provider.url, agent=agent), tmp_path)
    assert [trial.verdict for trial in ran.trials()] == ["pass"]


async def test_an_agent_that_fails_by_itself_beside_a_provider_that_is_well_is_graded(
    tmp_path: Path, provider: Provider
) -> None:
    agent = CLIENT + "\nask()\nsys.exit(3)\n"
    ran = await run_through(make(provider.url, agent=agent, policy={"retry_on_error": 2}), tmp_path)
    [trial] = ran.trials()
    assert (trial.outcome, trial.verdict, trial.cause, trial.attempt) == ("graded", "fail", None, 1)


async def test_a_trial_is_tried_again_when_its_provider_is_back(tmp_path: Path, provider: Provider) -> None:
    provider.plan.extend([Fail(status=503), "drop"])
    policy = {"retry_on_error": 3, "breaker": BreakerPolicy(after=0, give_up_after_s=600.0)}
    ran = await run_through(make(provider.url, policy=policy), tmp_path)
    [trial] = ran.trials()
    assert (trial.verdict, trial.attempt) == ("pass", 3)
    assert [each.reason for each in trial.attempts] == ["provider_error", "provider_unreachable", None]
