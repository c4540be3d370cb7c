"""Runs whose agents have a model and nothing else, in sandboxes of every kind without a daemon."""

import json
import os
from base64 import b64encode
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from labrunner.experiment.resolved import AgentLimits
from labrunner.gateway.holders import TOKEN_LENGTH
from labrunner.gateway.recording.calljournal import read_calls
from labrunner.policy.budget import Budget
from labrunner.sandbox.bubblewrap.program import works_here
from tests.kit.docker.plainuser import plain_place
from tests.kit.gateway.experiments import CLIENT, Ran, Setting, run
from tests.kit.gateway.hostphases import check_that_every_phase_reaches_its_hosts
from tests.kit.gateway.killable import Killable
from tests.kit.gateway.owning import find_daemons
from tests.kit.gateway.provider import KEY, Provider, run_provider

BWRAP = pytest.param(
    "bubblewrap",
    marks=[pytest.mark.bwrap, pytest.mark.skipif(not works_here()[0], reason="bubblewrap can't run here")],
)
kinds = pytest.mark.parametrize("kind", [BWRAP, "process"])


@pytest.fixture
async def provider() -> AsyncIterator[Provider]:
    async with run_provider() as running:
        yield running


def read_rows(ran: Ran, name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (ran.paths.root / name).read_bytes().splitlines()]


@kinds
async def test_an_agent_asks_its_model_and_what_it_used_is_known(
    tmp_path: Path, provider: Provider, kind: str
) -> None:
    ran = await run(Setting(kind=kind, url=provider.url, tasks=3).make(), tmp_path)
    trials = read_rows(ran, "facts/trials.jsonl")
    assert [row["verdict"] for row in trials] == ["pass"] * 3
    assert {got.headers["Authorization"] for got in provider.got} == {f"Bearer {KEY}"}
    for task in range(3):
        [call] = ran.calls(task)
        assert (call.end, call.provider, call.cost_usd) == ("answered", "main", 0.00042)
    timing = read_rows(ran, "facts/timings.jsonl")[0]["attempts"][0]
    assert (timing["usage"]["tokens"], timing["usage"]["requests"]) == (150, 1)
    assert timing["usage"]["cost_usd"] == 0.00042
    assert timing["limits"]["reach"] == ("planted" if kind == "bubblewrap" else "loopback")
    assert find_daemons(ran.paths.root) == []


TELLS_ITS_TOKEN = (
    CLIENT
    + """
import base64, pathlib, subprocess
subprocess.run(["env"])
token = os.environ["OPENAI_API_KEY"]
print("in stderr", token, file=sys.stderr)
ask(messages=[{"role": "user", "content": "my token is " + token}])
pathlib.Path("env.txt").write_text(token)
pathlib.Path("packed.txt").write_text(base64.b64encode(b"x" + token.encode()).decode())
pathlib.Path(os.environ["AGENTLAB_RESULT_PATH"]).write_text(json.dumps({"token": token}))
open("answer.txt", "w").write(token[::-1])
"""
)


@kinds
async def test_an_attempts_token_is_masked_in_all_that_is_kept(
    tmp_path: Path, provider: Provider, kind: str
) -> None:
    setting = Setting(kind=kind, url=provider.url, agent=TELLS_ITS_TOKEN, entry={"key": None})
    ran = await run(setting.make(policy_keep="always"), tmp_path)
    token = (ran.attempt() / "workspace/answer.txt").read_text()[::-1]
    assert len(token) == TOKEN_LENGTH
    kept = {path: path.read_bytes() for path in ran.paths.root.rglob("*") if path.is_file()}
    assert [path.name for path, data in kept.items() if token.encode() in data] == []
    assert [path.name for path, data in kept.items() if b64encode(b"x" + token.encode()) in data] == []
    names = {path.name for path, data in kept.items() if b"[masked:agent_token]" in data}
    assert {"agent.stdout", "agent.stderr", "bodies.jsonl", "env.txt"} <= names


ASK_FOR_EVER = (
    CLIENT
    + """
open("answer.txt", "w").write("begun")
while True:
    ask()
"""
)


@kinds
@pytest.mark.parametrize(
    ("limits", "word"),
    [
        (AgentLimits(requests=2), "requests"),
        (AgentLimits(tokens=2500), "tokens"),
        (AgentLimits(cost_usd=0.0045), "cost"),
    ],
)
async def test_a_reached_cap_ends_the_agent_at_once_and_it_is_graded(
    tmp_path: Path, provider: Provider, kind: str, limits: AgentLimits, word: str
) -> None:
    setting = Setting(kind=kind, url=provider.url, agent=ASK_FOR_EVER, limits=limits, timeout_s=600.0)
    ran = await run(setting.make(), tmp_path)
    [trial] = ran.trials()
    assert (trial.verdict, trial.ended_by) == ("pass", word)
    calls = ran.calls()
    assert [call.end for call in calls if call.end != "capped"] == ["answered"] * (len(provider.got))
    assert sum(call.cost_usd or 0 for call in calls) <= (limits.cost_usd or 1)


@pytest.mark.parametrize("kind", [BWRAP])
async def test_an_agent_has_its_loopback_and_no_descriptor_of_ours(
    tmp_path: Path, provider: Provider, kind: str
) -> None:
    look = (
        CLIENT
        + """
import socket
ask()
open_ones = sorted(os.listdir("/proc/self/fd"))
names = [line.split(":")[0].strip() for line in open("/proc/net/dev").readlines()[2:]]
outside = []
for address in (("192.0.2.1", 80), ("127.0.0.1", PORT)):
    try:
        socket.create_connection(address, 2)
        outside.append(address)
    except OSError:
        pass
open("answer.txt", "w").write(json.dumps([len(open_ones), names, outside]))
"""
    )
    port = provider.url.rpartition(":")[2]
    setting = Setting(kind=kind, url=provider.url, agent=look.replace("PORT", port))
    ran = await run(setting.make(policy_keep="always"), tmp_path)
    seen = json.loads((ran.attempt() / "workspace/answer.txt").read_text())
    assert seen == [4, ["lo"], []]  # the three streams, and the listing itself


@kinds
async def test_every_phase_reaches_the_hosts_that_it_is_allowed_and_no_others(
    tmp_path: Path, provider: Provider, kind: str
) -> None:
    await check_that_every_phase_reaches_its_hosts(tmp_path, Setting(kind=kind, url=provider.url))


async def test_the_runs_budget_holds_for_many_at_once_and_no_provider_has_more_than_it_may(
    tmp_path: Path, provider: Provider
) -> None:
    setting = Setting(
        kind="process",
        url=provider.url,
        agent=CLIENT + "for _ in range(8): ask()\nopen('answer.txt', 'w').write('done')",
        tasks=24,
        entry={"max_connections": 3},
        policy={"max_concurrency": 24, "budget": Budget(cost_usd=0.03, tokens=None)},
    )
    ran = await run(setting.make(), tmp_path)
    calls = [call for folder in ran.paths.trial_folders.glob("*/*") for call in read_calls(folder)]
    spent = sum(call.cost_usd or 0.0 for call in calls)
    assert 0.02 < spent <= 0.03
    assert provider.peak <= 3
    assert ran.end.is_used_up
    assert ran.end.status.error is not None
    assert "budget" in ran.end.status.error.message


@pytest.mark.root
@pytest.mark.bwrap
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become a plain user")
@pytest.mark.skipif(not works_here()[0], reason="bubblewrap can't run here")
async def test_a_plain_users_agents_find_their_model_on_the_loopback_of_their_sandbox(
    provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    with plain_place() as place:
        monkeypatch.setenv("DOCKER_HOST", f"unix://{place / 'sock'}")  # there is none
        lab = Killable(
            folder=place / "work", url=provider.url, sandbox="{kind: bubblewrap}", key="null", plain=place
        )
        lab.write()
        await lab.finish()
        assert [call.end for call in lab.calls()] == ["answered"]
        assert lab.reaches() == {"planted"}
        assert find_daemons(lab.run) == []
