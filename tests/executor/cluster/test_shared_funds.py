"""Runs on a real cluster whose nodes' gateways share the run's budget, its connections, and its outages."""

import asyncio
import json
import os
import re
import signal
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.kit.executor.rayclusters import RayCluster, running_nodes
from tests.kit.gateway.experiments import CLIENT
from tests.kit.gateway.killable import Killable, kill
from tests.kit.gateway.provider import Fail, Provider, run_provider

pytestmark = [
    pytest.mark.bwrap,
    pytest.mark.timeout(400),  # a cluster is a dozen processes of Python
]

NAMES = ("n1", "n2")
ASK_OFTEN = (
    CLIENT
    + """
open("answer.txt", "w").write("".join(ask(messages=[{"role": "user", "content": str(n)}]) for n in range(12)))
"""
)
ASK_MUCH = ASK_OFTEN.replace("range(12)", "range(40)")
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
BUDGET = Decimal("0.015")
LARGEST = Decimal("0.0022")
"""More than a request of the kit can cost; it costs 0.00042."""
TOKENS, MOST_TOKENS = 18_000, 2_200
"""A budget, and more than a request of the kit can take; it takes 150."""
REFUSAL = re.compile(
    rf"the run's cap of {BUDGET} USD is reached: 0\.0\d+ spent, and this request can cost 0\.002\d*; "
    r"to allow more, raise budget\.cost_usd"
)


@pytest.fixture(scope="module")
def cluster() -> Iterator[RayCluster]:
    with running_nodes(*NAMES) as made:
        yield made


@pytest.fixture
async def provider() -> AsyncIterator[Provider]:
    async with run_provider() as running:
        yield running


def on_nodes(cluster: RayCluster, per_node: int = 2) -> str:
    return f"executor: {{kind: ray, address: '{cluster.address}', per_node: {per_node}}}\n"


def make(
    folder: Path, provider: Provider, more: str, *words: str, tasks: int, agent: str = ASK_OFTEN
) -> Killable:
    lab = Killable(
        folder=folder,
        url=provider.url,
        sandbox="{kind: bubblewrap}",
        more=more,
        agent=agent,
        tasks=tasks,
        words=words,
    )
    lab.write()
    return lab


async def run_to_its_end(lab: Killable) -> tuple[int | None, str]:
    process = await lab.start()
    _, told = await asyncio.wait_for(process.communicate(), 200)
    return process.returncode, told.decode()


def count_spent(lab: Killable) -> Decimal:
    return sum((Decimal(repr(call.cost_usd or 0.0)) for call in lab.calls()), Decimal())


async def test_a_budget_that_runs_out_on_two_nodes_is_kept_and_used_up_as_here(
    tmp_path: Path, cluster: RayCluster, provider: Provider
) -> None:
    budget = f"budget: {{cost_usd: {BUDGET}}}\n"
    ends: list[Any] = []
    for name, more in (("here", ""), ("there", on_nodes(cluster))):
        lab = make(tmp_path / name, provider, budget + more, tasks=4)
        code, told = await run_to_its_end(lab)
        assert code == 1, told
        assert BUDGET - LARGEST <= count_spent(lab) <= BUDGET
        capped = [call.cap for call in lab.calls() if call.cap is not None]
        assert {(cap.whose, cap.limit) for cap in capped} == {("run", "cost")}
        for refused in (call.error.message for call in lab.calls() if call.cap is not None and call.error):
            assert REFUSAL.fullmatch(refused), refused
        ends.append(json.loads((lab.run / "status.json").read_bytes()))
    here, there = ([end["status"], re.sub(r"[\d.]+", "N", end["error"]["message"])] for end in ends)
    assert here == there
    assert "is used up" in here[1]
    assert "another request could have gone over it" in here[1]


async def run_out(lab: Killable) -> None:
    """Go on with a run until its budget is used up."""
    code, told = await run_to_its_end(lab)
    assert code == 1, told
    assert "is used up" in json.loads((lab.run / "status.json").read_bytes())["error"]["message"]


def count_tokens(lab: Killable) -> int:
    return sum(call.tokens.input + call.tokens.output for call in lab.calls() if call.tokens is not None)


async def test_whoever_goes_on_with_a_run_counts_every_token_once(
    tmp_path: Path, cluster: RayCluster, provider: Provider
) -> None:
    more = f"budget: {{tokens: {TOKENS}}}\n" + on_nodes(cluster, per_node=1)
    lab = make(tmp_path / "run", provider, more, tasks=6, agent=ASK_MUCH)
    process = await lab.start()
    journal = lab.run / "commits.jsonl"
    async with asyncio.timeout(120):
        while not journal.exists() or journal.read_bytes().count(b"\n") < 2:  # with twelve thousand tokens
            assert process.returncode is None, (await process.communicate())[1].decode()
            await asyncio.sleep(0.05)
    await kill(process)
    await run_out(lab)
    # Two agents were cut off with a call under way each, which may have taken what it could.
    assert TOKENS - 3 * MOST_TOKENS <= count_tokens(lab) <= TOKENS
    before = count_tokens(lab)
    here = replace(lab, words=("--executor", "local", "--set", f"budget.tokens={TOKENS + 6000}"))
    await run_out(here)
    assert 6000 - MOST_TOKENS <= count_tokens(lab) - before <= 6000
    await replace(lab, words=("--executor", "local", "--set", "budget.tokens=1000000")).finish()
    assert journal.read_bytes().count(b"\n") == 6


async def test_of_the_connections_of_a_run_there_are_never_more_on_two_nodes(
    tmp_path: Path, cluster: RayCluster, provider: Provider
) -> None:
    provider.dice = Random(1)
    more = on_nodes(cluster, per_node=3)
    lab = make(tmp_path / "run", provider, more, "--max-connections", "2", tasks=6)
    await lab.finish()
    assert provider.peak == 2
    assert len(provider.got) == 6 * 12
    # None has to wait until another node is done.
    began = {name: begun_at(lab, name) for name in NAMES}
    assert all(began.values())
    assert min(len(began["n1"]), len(began["n2"])) >= 12


def begun_at(lab: Killable, node: str) -> list[str]:
    """When calls of a node's attempts began."""
    lines = (lab.run / "facts/timings.jsonl").read_bytes().splitlines()
    there = {
        row["ids"]["trial_id"]
        for row in map(json.loads, lines)
        for each in row["attempts"]
        if each.get("node") == node
    }
    return sorted(call.started_at for call in lab.calls() if call.ids.trial_id in there)


async def test_connections_of_a_worker_that_is_killed_come_back(
    tmp_path: Path, cluster: RayCluster, provider: Provider
) -> None:
    provider.gate = asyncio.Event()
    more = f"budget: {{cost_usd: {8 * BUDGET}}}\n" + on_nodes(cluster, per_node=1)
    lab = make(tmp_path / "run", provider, more, "--max-connections", "2", tasks=4)
    process = await lab.start()
    async with asyncio.timeout(120):
        while provider.active < 2:
            assert process.returncode is None, (await process.communicate())[1].decode()
            await asyncio.sleep(0.05)
    [worker] = cluster.nodes["n2"].pids("ray::Worker")
    os.kill(worker, signal.SIGKILL)
    async with asyncio.timeout(120):
        while len(provider.got) < 3 or provider.active < 2:  # another attempt has what that one had
            await asyncio.sleep(0.05)
    provider.gate.set()
    _, told = await asyncio.wait_for(process.communicate(), 200)
    assert process.returncode == 0, told.decode()
    assert provider.peak == 2
    assert count_spent(lab) <= 8 * BUDGET


async def test_failures_on_two_nodes_are_one_row_that_opens_the_breaker(
    tmp_path: Path, cluster: RayCluster, provider: Provider
) -> None:
    provider.plan.extend([Fail(status=401, kind="invalid_api_key")] * 100)
    # No node alone can have as many in a row before it waits for its places.
    more = "fail_on_error: false\nbreaker: {after: 4, give_up_after_s: 1}\n" + on_nodes(cluster, per_node=2)
    lab = make(tmp_path / "run", provider, more, tasks=12, agent=GIVES_UP)
    code, told = await run_to_its_end(lab)
    assert code == 1, told
    status = json.loads((lab.run / "status.json").read_bytes())
    assert "breaker.give_up_after_s" in status["error"]["message"]
    [outage] = json.loads((lab.run / "facts/outages.json").read_bytes())["outages"]
    assert outage["cause"] == "account"
    assert 4 <= len(provider.got) < 12  # those in flight, and none once it was open
    provider.plan.clear()
    await lab.finish()
    tried = [json.loads(line) for line in (lab.run / "facts/timings.jsonl").read_bytes().splitlines()]
    assert {each["node"] for row in tried for each in row["attempts"]} == set(NAMES)
    assert len(lab.answers()) == 12
