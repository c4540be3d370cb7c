"""Agents in containers, who find models and hosts on their own loopback, or on a network of their run's."""

import json
from collections.abc import AsyncIterator, Callable
from functools import cache
from pathlib import Path

import pytest
import pytest_asyncio

from labrunner.experiment.resolved import AgentLimits
from labrunner.sandbox.docker.maker import DockerMaker
from labrunner.sandbox.door import ReachWay
from tests.kit.docker.traces import containers_of, networks_of
from tests.kit.gateway.experiments import CLIENT, Setting, run
from tests.kit.gateway.hostphases import check_that_every_phase_reaches_its_hosts
from tests.kit.gateway.owning import find_daemons
from tests.kit.gateway.provider import Provider, run_provider

TELL = (
    CLIENT
    + """
said = ask()
wires = [line.split(":")[0].strip() for line in open("/proc/net/dev").readlines()[2:]]
told = {"said": said, "url": os.environ["OPENAI_BASE_URL"], "wires": wires}
open("answer.txt", "w").write(json.dumps(told))
"""
)
CHANGE = TELL + "open('/etc/changed', 'w').close()\n"
KNOCK = """
import json, os, pathlib, socket, urllib.parse
told = json.loads(pathlib.Path(os.environ["AGENTLAB_WORKSPACE"], "answer.txt").read_text())
wires = [line.split(":")[0].strip() for line in open("/proc/net/dev").readlines()[2:]]
found = []
for host in ("127.0.0.1", urllib.parse.urlsplit(told["url"]).hostname):
    for port in (9701, 9702):
        try:
            socket.create_connection((host, port), 2)
            found.append(port)
        except OSError:
            pass
is_good = told["said"].startswith("{") and len(told["wires"]) == WIRES and wires == ["lo"] and not found
verdict = {"verdict": "pass" if is_good else "fail"}
pathlib.Path(os.environ["AGENTLAB_BENCHMARK_SCORE_PATH"]).write_text(json.dumps(verdict))
"""
"""Passes where the agent had as many wires as it should, and the grader has none and finds nobody."""
WIRES = {"planted": "1", "bridge": "2"}
ways = pytest.mark.parametrize("way", ["planted", "bridge"])
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


def reaching(way: ReachWay) -> Callable[[str], DockerMaker]:
    """Makes sandboxes as for a user who has this way."""
    return cache(lambda kind: DockerMaker(way=way))


@ways
@pytest.mark.parametrize(
    ("agent", "user", "trust", "barrier"),
    [
        (TELL, None, "standard", "restarted"),
        (TELL, "app", "standard", "separate_user"),
        (TELL, "app", "strict", "restarted"),
        (CHANGE, None, "standard", "fresh_container"),
    ],
    ids=["root", "in-place", "strict", "fresh"],
)
async def test_an_agent_asks_its_model_and_its_grader_finds_the_door_closed_and_no_network(
    tmp_path: Path,
    ash: str,
    provider: Provider,
    way: ReachWay,
    agent: str,
    user: str | None,
    trust: str,
    barrier: str,
) -> None:
    plan = {"image": ash, "memory_mb": 256}
    grader = KNOCK.replace("WIRES", WIRES[way])
    setting = Setting(kind="docker", url=provider.url, plan=plan, agent=agent, grader=grader, user=user)
    experiment = setting.make(trust=trust, on_system_change="refuse" if trust == "strict" else "afresh")
    ran = await run(experiment, tmp_path, make=reaching(way))
    [trial] = ran.trials()
    assert (trial.verdict, trial.cause, trial.barrier) == ("pass", None, barrier)
    [call] = ran.calls()
    assert (call.end, call.cost_usd) == ("answered", 0.00042)
    assert len(provider.got) == 1
    [timing] = ran.paths.timings.read_bytes().splitlines()
    assert json.loads(timing)["attempts"][0]["limits"]["reach"] == way
    assert find_daemons(ran.paths.root) == []
    assert await containers_of(ran.paths.root) == await networks_of(ran.paths.root) == []


@pytest.mark.parametrize(("way", "user"), [("planted", "app"), ("bridge", None)])
async def test_every_phase_in_containers_reaches_the_hosts_that_it_is_allowed_and_no_others(
    tmp_path: Path, ash: str, provider: Provider, way: ReachWay, user: str | None
) -> None:
    plan = {"image": ash, "memory_mb": 256}
    setting = Setting(kind="docker", url=provider.url, plan=plan, user=user)
    ran = await check_that_every_phase_reaches_its_hosts(tmp_path, setting, make=reaching(way))
    assert find_daemons(ran.paths.root) == []
    assert await networks_of(ran.paths.root) == []


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
