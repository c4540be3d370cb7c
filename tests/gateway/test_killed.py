"""`lab` or its gateway is killed while an agent in bubblewrap hears its model."""

import asyncio
import json
import os
import re
import signal
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from labrunner.gateway.recording.opencalls import OPEN
from labrunner.records.facts.model_call import GATEWAY_ENDED
from labrunner.sandbox.bubblewrap.program import works_here
from tests.kit.cli.calling import lab as call
from tests.kit.gateway.killable import (
    COUNT,
    STREAM,
    Killable,
    check_that_a_killed_gateway_cuts_one_connection_of_each,
    kill,
)
from tests.kit.gateway.owning import find_daemons
from tests.kit.gateway.provider import Provider, run_provider

TUNNEL = r"""
import socket, urllib.parse
proxy = urllib.parse.urlsplit(os.environ["HTTPS_PROXY"])
line = socket.create_connection((proxy.hostname, proxy.port))
line.sendall(b"CONNECT @PLACE@ HTTP/1.1\r\nhost: @PLACE@\r\n\r\n")
assert b" 200 " in line.recv(4096)
line.sendall(b"hello")
assert line.recv(5) == b"hello"
"""
"""Opens a tunnel, and keeps it."""

pytestmark = [
    pytest.mark.crash,
    pytest.mark.bwrap,
    pytest.mark.skipif(not works_here()[0], reason="bubblewrap can't run here"),
]


@pytest.fixture
async def provider() -> AsyncIterator[Provider]:
    async with run_provider() as running:
        yield running


@pytest.fixture
def lab(tmp_path: Path, provider: Provider) -> Killable:
    lab = Killable(folder=tmp_path / "lab", url=provider.url, sandbox="{kind: bubblewrap}")
    lab.write()
    return lab


async def wait_until_gone(run: Path) -> None:
    async with asyncio.timeout(30):
        while find_daemons(run):
            await asyncio.sleep(0.05)


async def test_a_killed_runner_takes_its_gateway_along_where_no_sandbox_outlives_it(
    lab: Killable, provider: Provider
) -> None:
    provider.gate = asyncio.Event()
    process = await lab.start()
    await asyncio.wait_for(provider.begun.wait(), 60)
    assert len(find_daemons(lab.run)) == 1
    await kill(process)
    await wait_until_gone(lab.run)
    [cut] = lab.calls()  # the agent was gone: that is on disk, and counts
    assert cut.end == "client_gone"
    assert cut.cost_usd
    frugal = replace(lab, words=("--set", f"budget.cost_usd={cut.cost_usd}"))
    await asyncio.wait_for((await frugal.start()).communicate(), 100)
    assert "is used up" in json.loads((lab.run / "status.json").read_bytes())["error"]["message"]
    assert [folder.name for folder in lab.attempts()] == ["1"]  # nothing was begun for it
    provider.gate.set()
    await lab.finish()
    assert sorted(call.end for call in lab.calls()) == ["answered", "client_gone"]
    spent = sum(call.cost_usd or 0.0 for call in lab.calls())
    assert lab.read_expense()["cost_usd"]["total"] == pytest.approx(spent)
    assert lab.read_expense()["cost_usd"]["discarded"] == pytest.approx(cut.cost_usd)
    assert find_daemons(lab.run) == []


async def test_a_call_is_shown_and_paid_though_lab_and_gateway_died_with_it(
    lab: Killable, provider: Provider
) -> None:
    provider.gate = asyncio.Event()
    process = await lab.start()
    await asyncio.wait_for(provider.begun.wait(), 60)
    [pid] = find_daemons(lab.run)
    os.kill(pid, signal.SIGKILL)
    await kill(process)
    assert lab.calls() == []
    frugal = replace(lab, words=("--set", "budget.cost_usd=0.000001"))
    await asyncio.wait_for((await frugal.start()).communicate(), 100)
    [cut] = lab.calls()
    assert (cut.end, cut.error and cut.error.kind) == ("cut", GATEWAY_ENDED)
    assert "is used up" in json.loads((lab.run / "status.json").read_bytes())["error"]["message"]
    provider.gate.set()
    await lab.finish()
    again, aside = sorted(lab.attempts())
    assert [call.end for call in lab.calls_of(again)] == ["answered"]
    assert [call.call_id for call in lab.calls_of(aside)] == [cut.call_id]
    assert lab.read_expense()["cost_usd"]["discarded"] == pytest.approx(cut.cost_usd)
    assert list(lab.run.rglob(OPEN)) == []
    asked = "select cut_off, outcome, error_kind, basis from calls order by cut_off"
    told = call("query", lab.run_id, asked, "--json", cwd=lab.folder).json()
    assert [tuple(row.values()) for row in told] == [
        (False, "answered", None, "reported"),
        (True, "cut", GATEWAY_ENDED, "reserved"),
    ]


def find_tokens(run: Path) -> set[bytes]:
    """Whatever looks like a token in the output of agents."""
    return {
        found
        for path in run.glob("trials/*/*/logs/agent.stdout")
        for found in re.findall(rb"token ([0-9a-f]{40})", path.read_bytes())
    }


async def test_the_token_of_an_attempt_that_was_cut_off_is_masked(lab: Killable, provider: Provider) -> None:
    says_it = "import os\nprint('token', os.environ['OPENAI_API_KEY'], flush=True)\n"
    (lab.folder / "agent/agent.py").write_text(says_it + STREAM)
    provider.gate = asyncio.Event()
    process = await lab.start()
    await asyncio.wait_for(provider.begun.wait(), 60)
    await kill(process)
    assert len(find_tokens(lab.run)) == 1
    provider.gate.set()
    await lab.finish()
    assert len(lab.attempts()) == 2
    assert find_tokens(lab.run) == set()


async def test_the_token_of_an_attempt_is_masked_while_it_runs(lab: Killable, provider: Provider) -> None:
    says_it = "import os\nprint('token', os.environ['OPENAI_API_KEY'], flush=True)\n"
    (lab.folder / "agent/agent.py").write_text(says_it + STREAM)
    provider.gate = asyncio.Event()
    process = await lab.start()
    await asyncio.wait_for(provider.begun.wait(), 60)
    [token] = find_tokens(lab.run)
    shown = [
        await asyncio.to_thread(call, "show", lab.run_id, "0", *more, cwd=lab.folder)
        for more in ((), ("--json",))
    ]
    for each in shown:
        assert "token [masked:agent_token]" in each.out
        assert token.decode() not in each.out
    provider.gate.set()
    await asyncio.wait_for(process.communicate(), 100)


async def test_a_tunnel_that_a_killed_gateway_cut_is_an_event(lab: Killable, provider: Provider) -> None:
    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(await reader.readexactly(5))
        await reader.read()
        writer.close()

    site = await asyncio.start_server(echo, "127.0.0.1", 0)
    async with site:
        place = "{}:{}".format(*site.sockets[0].getsockname())
        allowed = replace(
            lab,
            folder=lab.folder.with_name("tunnel"),
            network=f"{{models: [main], allow: ['{place}']}}",
            agent=STREAM.replace("import time\n", "import time\n" + TUNNEL.replace("@PLACE@", place), 1),
        )
        allowed.write()
        provider.gate = asyncio.Event()
        process = await allowed.start()
        await asyncio.wait_for(provider.begun.wait(), 60)
        [pid] = find_daemons(allowed.run)
        os.kill(pid, signal.SIGKILL)
        provider.gate.set()
        await asyncio.wait_for(process.communicate(), 100)
    (doors,) = allowed.run.glob("trials/*/*/doors.jsonl")
    [event] = map(json.loads, doors.read_bytes().splitlines())
    assert (event["way"], event["end"], event["reason"]) == ("tunnel", "failed", "gateway_ended")
    assert f"{event['host']}:{event['port']}" == place
    assert list(allowed.run.rglob("*.open")) == []


@pytest.mark.parametrize("kind", ["bubblewrap", "process"])
async def test_a_killed_gateway_is_one_cut_connection_for_each_agent(
    tmp_path: Path, provider: Provider, kind: str
) -> None:
    network = "{models: [main], allow: full}" if kind == "process" else "{models: [main]}"
    lab = Killable(
        folder=tmp_path / "counting",
        url=provider.url,
        sandbox=f"{{kind: {kind}}}",
        tasks=3,
        agent=COUNT,
        network=network,
        grader_network="full" if kind == "process" else "none",
    )
    lab.write()
    await check_that_a_killed_gateway_cuts_one_connection_of_each(lab, provider)
