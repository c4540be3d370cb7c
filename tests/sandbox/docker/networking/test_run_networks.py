"""Networks of runs: whose they are, what leads where in them, and who takes them away."""

import asyncio
import json
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import pytest_asyncio

from labrunner.experiment.resolved import Network
from labrunner.files.host import machine_id
from labrunner.sandbox.docker.engine.client import Engine
from labrunner.sandbox.docker.engine.labels import PLACE, PROBE
from labrunner.sandbox.docker.engine.replies import EngineFacts
from labrunner.sandbox.docker.maker import DockerMaker
from labrunner.sandbox.docker.networking.run_networks import ROOT
from labrunner.sandbox.docker.probing.container_check import check_reach
from labrunner.sandbox.docker.sweeping import DockerSweeper
from labrunner.sandbox.door import Demands
from tests.kit.builders import make_sandbox
from tests.kit.docker.site import Site
from tests.kit.sandbox.place import phase

OFF, FULL, MODELS = Network(mode="none"), Network(mode="full"), Network(mode="none", models=("m",))
DEMANDS = Demands(networks=(OFF, MODELS, OFF), system_changes=False)
SERVE = (
    "import socket; server = socket.create_server(('0.0.0.0', 7777))\nwhile True: server.accept()[0].close()"
)
LOOK = r"""
import json, os, socket, time
def tries(place):
    with socket.socket() as client:
        client.settimeout(2)
        try:
            client.connect(place)
            return True
        except OSError:
            return False
def hears_query():
    # What the engine's name server does not know it passes on to nobody but ourselves.
    with socket.socket(type=socket.SOCK_DGRAM) as server, socket.socket(type=socket.SOCK_DGRAM) as client:
        server.bind(("127.0.0.1", 53))
        server.settimeout(5)
        query = bytes([1, 2, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 7]) + b"example" + bytes([0, 0, 1, 0, 1])
        client.sendto(query, ("127.0.0.11", 53))
        return b"example" in server.recv(512)
listener = socket.create_server(("0.0.0.0", 7777))
open("here", "w").close()
while not os.path.exists("told.json"):
    time.sleep(0.02)
found = {name: tries(tuple(place)) for name, place in json.load(open("told.json")).items()}
six = "/proc/net/if_inet6"
found["addresses6"] = [line.split()[-1] for line in open(six)] if os.path.exists(six) else []
found["query"] = hears_query()
json.dump(found, open("found.tmp", "w"))
os.rename("found.tmp", "found.json")
while not os.path.exists("over"):
    time.sleep(0.02)
"""


@dataclass
class HeardDoors:
    """Doors that nobody serves."""

    opened: list[int | None] = field(default_factory=list)

    async def open(self, pid: int | None) -> None:
        self.opened.append(pid)


@pytest_asyncio.fixture
async def bridged(ash: str, tmp_path: Path) -> AsyncIterator[Site]:
    """A run's folder, for a user who may plant nothing."""
    maker = DockerMaker(way="bridge")
    site = Site(maker=maker, run_dir=tmp_path / "run", image=ash)
    site.run_dir.mkdir()
    yield site
    if site.run_dir.exists():
        await maker.reap(site.run, frozenset())
    await maker.close()


async def names_of(engine: Engine, site: Site) -> list[str]:
    return [each.name for each in await engine.networks(f"{PLACE}={site.run.place}")]


async def wait_for_file(path: Path) -> None:
    async with asyncio.timeout(60):
        while not path.exists():
            await asyncio.sleep(0.02)


@asynccontextmanager
async def run_elsewhere(engine: Engine, image: str) -> AsyncIterator[str]:
    """A container on the engine's own network, which listens; its address there."""
    config = {"Image": image, "Entrypoint": ["python3", "-c", SERVE], "HostConfig": {"NetworkMode": "bridge"}}
    made = await engine.create(config, "lab-test-elsewhere")
    try:
        await engine.start(made)
        yield await find_address(engine, "bridge", made)
    finally:
        await engine.remove(made)


async def find_address(engine: Engine, network: str, container: str) -> str:
    seen = await engine._get(f"networks/{network}", "looking for a container")
    return str(seen["Containers"][container]["IPv4Address"]).partition("/")[0]


async def test_containers_of_a_run_reach_this_host_and_neither_each_other_nor_any_other_network(
    bridged: Site,
) -> None:
    engine = bridged.maker.engine
    specs = [bridged.spec(trial, DEMANDS) for trial in ("one", "two")]
    agent = phase("python3", "-B", "-c", LOOK, network=MODELS, doors=HeardDoors())
    places = [spec.folders.workspace for spec in specs]
    # On all addresses, as a careless service of the host.
    careless = await asyncio.start_server(lambda _, writer: writer.close(), "0.0.0.0", 0)
    port = careless.sockets[0].getsockname()[1]

    async def run(number: int) -> None:
        async with bridged.maker.open(specs[number]) as sandbox:
            ended = (await sandbox.run_agent(None, agent)).agent
            assert ended is not None
            assert ended.exit_status == 0

    async with careless, run_elsewhere(engine, bridged.image) as elsewhere, asyncio.TaskGroup() as group:
        for number in range(2):
            group.create_task(run(number))
        for place in places:
            await wait_for_file(place / "here")
        [network] = await engine.networks(f"{PLACE}={bridged.run.place}")
        own = [
            await find_address(engine, network.name, each.id)
            for each in await engine.list(f"{PLACE}={bridged.run.place}")
        ]
        told = {
            "host": (network.address, port),
            "elsewhere": (elsewhere, 7777),
            "loopback": ("127.0.0.1", port),
        }
        for place in places:
            (place / "told.json").write_text(json.dumps(told | {each: (each, 7777) for each in own}))
        for place in places:
            await wait_for_file(place / "found.json")
            (place / "over").touch()
    found = [json.loads((place / "found.json").read_text()) for place in places]
    for each in found:
        assert [each["host"], each["elsewhere"], each["loopback"]] == [True, False, False]
        assert set(each["addresses6"]) <= {"lo"}
        assert each["query"]
    assert [[each[address] for address in sorted(own)] for each in found] in (
        [[True, False], [False, True]],
        [[False, True], [True, False]],
    )  # its own each
    assert await names_of(engine, bridged) == [network.name]  # until the run needs it no longer
    for spec in specs:
        assert spec.mark is not None
        await bridged.maker.release(spec.mark.token, keep=False)
    await bridged.maker.reap(bridged.run, frozenset())
    assert await names_of(engine, bridged) == []


async def test_the_next_owner_of_a_run_finds_its_network(bridged: Site) -> None:
    spec, other = bridged.spec("one", DEMANDS), DockerMaker(way="bridge")
    async with bridged.maker.open(spec) as first:
        [name] = await names_of(other.engine, bridged)
        assert name.startswith("lab-the-run-")
        async with other.open(bridged.spec("two", DEMANDS)) as second:
            assert first.reach == second.reach  # type: ignore[attr-defined]  # containers have it
        await other.close()
        assert await names_of(bridged.maker.engine, bridged) == [name]  # somebody is on it


async def test_a_network_that_somebody_pruned_between_attempts_is_made_again(bridged: Site) -> None:
    engine, maker = bridged.maker.engine, bridged.maker
    for trial, memory_mb in (("one", 256), ("two", 257)):  # another plan: what was probed is not probed again
        async with maker.open(bridged.spec(trial, DEMANDS)) as sandbox:
            ended = (await sandbox.run_agent(None, phase("true", network=MODELS, doors=HeardDoors()))).agent
            assert ended is not None
            assert ended.exit_status == 0
        plan = make_sandbox(kind="docker", image=bridged.image, memory_mb=memory_mb)
        checks = await maker.preflight(plan, DEMANDS)
        assert [each.message for each in checks if not each.passed and each.severity == "error"] == []
        await maker._removals.remove_all(
            [each.id for each in await engine.list(f"{PLACE}={bridged.run.place}")]
        )
        found = [*await engine.networks(f"{PLACE}={bridged.run.place}"), *await engine.networks(PROBE)]
        assert len(found) == 2
        for network in found:
            await engine.remove_network(network.id)


async def test_a_network_without_containers_is_a_stray_and_that_of_a_lost_run_an_orphan(
    bridged: Site,
) -> None:
    async with bridged.maker.open(bridged.spec("one", DEMANDS)):
        sweeper = DockerSweeper()
    engine, run = bridged.maker.engine, bridged.run
    await bridged.maker._removals.remove_all(  # as if the runner had died after this
        [each.id for each in await engine.list(f"{PLACE}={run.place}")]
    )
    [network] = await engine.networks(f"{PLACE}={run.place}")
    assert network.labels[ROOT] == str(bridged.run_dir)
    assert (await sweeper.find_strays({run: False}))[run].ids == (f"network:{network.id}",)
    assert [each.ids for each in await sweeper.find_orphans(ended_before=network.created_at + 1)] == []
    shutil.rmtree(bridged.run_dir)
    assert [each.ids for each in await sweeper.find_orphans(ended_before=network.created_at - 1)] == []
    [orphans] = await sweeper.find_orphans(ended_before=network.created_at + 1)
    assert orphans.ids == (f"network:{network.id}",)
    await sweeper.remove(orphans.ids)
    assert await engine.networks(f"{PLACE}={run.place}") == ()


async def test_a_probe_has_a_network_of_its_own_which_goes_with_it_or_is_found_when_it_was_killed(
    bridged: Site, tmp_path: Path
) -> None:
    maker, engine = bridged.maker, Engine()
    plan = make_sandbox(kind="docker", image=bridged.image, memory_mb=256)
    checks = await maker.preflight(plan, DEMANDS)
    assert [each.message for each in checks if not each.passed and each.severity == "error"] == []
    [told] = [each for each in checks if each.name == "reach"]
    assert "can be reached, too" in told.message
    await maker.close()
    assert await engine.networks(PROBE) == ()
    dead = subprocess.run(
        [sys.executable, "-c", "from labrunner.files.host import process_mark; print(process_mark())"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
    config = {
        "Name": "lab-probe-of-the-dead",
        "Internal": True,
        "Labels": {PROBE: dead},
        "CheckDuplicate": True,
    }
    assert dead.startswith(machine_id())
    await engine.make_network(config)
    await maker.reap_probes()
    assert await engine.networks(PROBE) == ()
    await engine.close()


@pytest.mark.parametrize(
    ("version", "is_refused"), [("20.10.24", True), ("23.0.11", False), ("25.0.4", True), ("27.1.1", False)]
)
def test_an_engine_that_would_answer_for_names_is_refused_where_phases_have_everything(
    version: str, is_refused: bool
) -> None:
    engine = EngineFacts.of({"ServerVersion": version})
    mixed = Demands(networks=(FULL, MODELS, OFF))
    found = [each.name for each in check_reach(mixed, "bridge", engine) if each.severity == "error"]
    assert found == (["network"] if is_refused else [])
    assert [each.name for each in check_reach(DEMANDS, "bridge", engine)] == ["reach"]
    assert list(check_reach(mixed, "planted", engine)) == []
