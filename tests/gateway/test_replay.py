"""Runs whose models' answers come from the recorded calls of another run."""

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from labrunner.errors import InputError
from labrunner.experiment.resolved import AgentLimits
from labrunner.experiment.run_policy import ReplayMode
from labrunner.policy.budget import Budget
from labrunner.sandbox.bubblewrap.program import works_here
from tests.kit.gateway.experiments import CLIENT, Ran, Setting, run
from tests.kit.gateway.killable import PAUSING, Killable, kill
from tests.kit.gateway.owning import find_daemons
from tests.kit.gateway.provider import Fail, Provider, run_provider

BWRAP = pytest.param(
    "bubblewrap",
    marks=[pytest.mark.bwrap, pytest.mark.skipif(not works_here()[0], reason="bubblewrap can't run here")],
)
kinds = pytest.mark.parametrize("kind", [BWRAP, "process"])
NOWHERE = "http://127.0.0.1:9"
"""A provider that is off."""
TALK = (
    CLIENT
    + """
said = [ask(), ask(stream=True)]
said.append(ask(messages=[{"role": "user", "content": said[0]}]))
open("answer.txt", "w").write("\\n".join(said))
"""
)


@pytest.fixture
async def provider() -> AsyncIterator[Provider]:
    async with run_provider() as running:
        yield running


def make_setting(kind: str, url: str = NOWHERE, **changes: Any) -> Setting:
    given: dict[str, Any] = {"kind": kind, "url": url, "agent": TALK, "tasks": 2} | changes
    return Setting(**given)


def replaying(setting: Setting, recorded: Path, *, mode: ReplayMode = "strict", **policy: Any) -> Setting:
    how = {"replay": str(recorded), "replay_mode": mode, **policy}
    return replace(setting, policy={**setting.policy, **how})


async def replay(setting: Setting, recorded: Ran, into: Path, **how: Any) -> Ran:
    """Replay a run without any key."""
    return await run(replaying(setting, recorded.paths.root, **how).make(), into, secrets={})


def read_usage(ran: Ran) -> list[dict[str, float]]:
    lines = ran.paths.timings.read_bytes().splitlines()
    return [json.loads(line)["attempts"][-1]["usage"] for line in lines]


@kinds
async def test_a_strict_replay_has_the_same_digest_with_the_provider_off_and_costs_nothing(
    tmp_path: Path, provider: Provider, kind: str
) -> None:
    recorded = await run(make_setting(kind, provider.url).make(), tmp_path / "then")
    played = await replay(
        make_setting(kind), recorded, tmp_path / "now", budget=Budget(cost_usd=0.0001, tokens=10)
    )
    assert played.end.status.chain == recorded.end.status.chain
    assert [trial.verdict for trial in played.trials()] == ["pass", "pass"]
    origins = [call.call_id for call in recorded.calls()]
    assert [call.replayed for call in played.calls()] == origins
    for usage in read_usage(played):
        assert (usage["requests"], usage["tokens"], usage["cost_usd"]) == (0, 0, 0.0)
        assert (usage["replayed_requests"], usage["replayed_tokens"]) == (3, 450)
        assert usage["replayed_cost_usd"] == pytest.approx(0.00126)
    assert find_daemons(played.paths.root) == []


ASK_TILL_THE_END = TALK + "\nwhile True: ask(messages=[{'role': 'user', 'content': 'and on'}])\n"


@kinds
async def test_a_miss_is_an_error_at_once_that_is_not_tried_again(
    tmp_path: Path, provider: Provider, kind: str
) -> None:
    recorded = await run(make_setting(kind, provider.url).make(), tmp_path / "then")
    setting = make_setting(kind, agent=ASK_TILL_THE_END, timeout_s=600.0, policy={"retry_on_error": 2})
    played = await replay(setting, recorded, tmp_path / "now")
    for trial in played.trials():
        assert (trial.outcome, trial.cause, trial.reason) == ("failed", "replay", "replay_miss")
        assert trial.attempt == 1
    timing = json.loads(played.paths.timings.read_bytes().splitlines()[0])
    told = timing["attempts"][0]["message"]
    assert "all 3 recorded calls have been answered, and this is one more" in told


async def test_an_agent_that_hides_a_miss_is_not_graded_all_the_same(
    tmp_path: Path, provider: Provider
) -> None:
    recorded = await run(make_setting("process", provider.url).make(), tmp_path / "then")
    changed = TALK.replace("ask()", "ask(messages=[{'role': 'user', 'content': 'another'}])", 1)
    played = await replay(make_setting("process", agent=changed), recorded, tmp_path / "now")
    assert {trial.cause for trial in played.trials()} == {"replay"}
    [timing, _] = [json.loads(line) for line in played.paths.timings.read_bytes().splitlines()]
    told = timing["attempts"][0]["message"]
    assert "messages[0]" in told
    assert "recorded nothing" in told


async def test_what_is_reused_is_free_and_the_rest_is_paid(tmp_path: Path, provider: Provider) -> None:
    recorded = await run(make_setting("process", provider.url).make(), tmp_path / "then")
    provider.got.clear()
    more = make_setting("process", provider.url, agent=TALK + "\nask(max_tokens=6)\n")
    how = replaying(more, recorded.paths.root, mode="reuse").make()
    played = await run(how, tmp_path / "now")
    assert {trial.verdict for trial in played.trials()} == {"pass"}
    assert len(provider.got) == 2
    for usage in read_usage(played):
        assert (usage["requests"], usage["replayed_requests"]) == (1, 3)
        assert usage["cost_usd"] == 0.00042


async def test_damaged_and_missing_recordings_are_refused_by_name_before_anything_is_made(
    tmp_path: Path, provider: Provider
) -> None:
    recorded = await run(make_setting("process", provider.url).make(), tmp_path / "then")
    bodies = recorded.attempt(1) / "bodies.jsonl"
    bodies.write_bytes(bodies.read_bytes().replace(b"Hello", b"Hullo", 1))
    with pytest.raises(InputError, match=r"can't answer 2 of the trials: t1\..*bodies.jsonl.*t2\."):
        await replay(make_setting("process", tasks=3), recorded, tmp_path / "now")
    assert not (tmp_path / "now").exists()


async def test_a_limit_and_a_failing_provider_are_replayed_as_they_were(
    tmp_path: Path, provider: Provider
) -> None:
    setting = make_setting("process", provider.url, tasks=1, entry={"max_retries": 0})
    setting = replace(setting, agent=CLIENT + "\nopen('answer.txt', 'w').write(ask())\nwhile True: ask()\n")
    setting = replace(setting, limits=AgentLimits(requests=3))
    provider.plan.append(Fail(status=503))
    recorded = await run(setting.make(), tmp_path / "then")
    [trial] = recorded.trials()
    assert (trial.verdict, trial.ended_by) == ("pass", "requests")
    played = await replay(replace(setting, url=NOWHERE), recorded, tmp_path / "now")
    assert played.end.status.chain == recorded.end.status.chain


@pytest.fixture
def lab(tmp_path: Path, provider: Provider) -> Killable:
    lab = Killable(folder=tmp_path / "lab", url=provider.url, sandbox="{kind: bubblewrap}", agent=PAUSING)
    lab.write()
    return lab


@pytest.mark.crash
@pytest.mark.bwrap
@pytest.mark.skipif(not works_here()[0], reason="bubblewrap can't run here")
async def test_a_killed_replay_goes_on_as_a_replay(lab: Killable, provider: Provider) -> None:
    await lab.finish()
    recorded = lab.run
    count = len(provider.got)
    again = replace(lab, run_id="again", words=("--replay", "the-run"), key_value=None)
    process = await again.start()
    async with asyncio.timeout(60):
        while not list(again.run.glob("trials/*/1/calls.jsonl")):
            await asyncio.sleep(0.02)
    await kill(process)
    await again.finish()
    assert again.read_chain() == again.read_chain(recorded)
    assert all(call.replayed for call in again.calls())
    assert len(provider.got) == count


@pytest.mark.crash
@pytest.mark.bwrap
@pytest.mark.skipif(not works_here()[0], reason="bubblewrap can't run here")
async def test_a_run_that_was_cut_off_reuses_what_its_own_attempt_heard(
    lab: Killable, provider: Provider
) -> None:
    process = await lab.start()
    async with asyncio.timeout(60):
        while len(lab.calls()) < 2:
            await asyncio.sleep(0.02)
    await kill(process)
    heard = [call for call in lab.calls() if call.end == "answered"]
    again = replace(lab, words=("--replay", "the-run", "--replay-mode", "reuse"))
    await again.finish()
    [folder] = again.run.glob("trials/*/1")
    calls = again.calls_of(folder)
    assert [call.replayed for call in calls[: len(heard)]] == [call.call_id for call in heard]
    assert all(call.replayed is None for call in calls[len(heard) :])
    assert len(provider.got) == 4 + sum(call.end != "answered" for call in lab.calls())


@pytest.mark.crash
@pytest.mark.bwrap
@pytest.mark.skipif(not works_here()[0], reason="bubblewrap can't run here")
async def test_a_killed_gateway_of_a_replay_answers_no_call_twice(lab: Killable, provider: Provider) -> None:
    await lab.finish()
    count = len(provider.got)
    again = replace(lab, run_id="again", words=("--replay", "the-run"), key_value=None)
    process = await again.start()
    async with asyncio.timeout(60):
        while not again.calls():
            await asyncio.sleep(0.02)
    [pid] = find_daemons(again.run)
    os.kill(pid, signal.SIGKILL)
    _, told = await asyncio.wait_for(process.communicate(), 100)
    assert process.returncode == 0, told.decode()
    assert len({call.replayed for call in again.calls()}) == len(again.calls()) == 4
    assert len(provider.got) == count
