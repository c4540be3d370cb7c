import asyncio
import os
import resource
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import msgspec
import pytest

from labrunner.errors import SandboxFailed
from labrunner.gateway.process.control import Capped, Halting, ToldCaps
from labrunner.gateway.process.daemon import Daemon
from labrunner.gateway.process.place import GatewayPlace
from labrunner.gateway.recording.calljournal import read_calls
from tests.kit.gateway.owning import (
    LOOPBACK,
    ask,
    find_daemons,
    ignore,
    make_admit,
    make_hello,
    own,
)
from tests.kit.gateway.provider import KEY, Provider, run_provider
from tests.kit.waiting import wait_for


@pytest.fixture
async def provider() -> AsyncIterator[Provider]:
    async with run_provider() as running:
        yield running


async def test_an_attempt_is_served_by_a_process_that_ends_with_its_owner(
    tmp_path: Path, provider: Provider
) -> None:
    async with own(tmp_path, make_hello(tmp_path, provider.url)) as owner:
        assert find_daemons(tmp_path) == []  # not before somebody needs it
        port = (await owner.listen(LOOPBACK)).ports[0]
        await owner.admit(make_admit(tmp_path), ignore)
        answer = await ask(port)
        assert answer.status_code == 200
        assert len(find_daemons(tmp_path)) == 1
        await owner.dismiss("one")
        assert (await ask(port)).status_code == 401
    assert find_daemons(tmp_path) == []
    assert [row.end for row in read_calls(tmp_path / "trials/one/1")] == ["answered"]
    assert not (tmp_path / "gateway/socket").exists()


async def test_entries_of_the_same_provider_have_their_connections_together(
    tmp_path: Path, provider: Provider
) -> None:
    hello = make_hello(tmp_path, provider.url, max_connections=4)
    [main] = hello.models
    other = msgspec.structs.replace(main, name="other", max_connections=2)
    provider.gate = asyncio.Event()
    async with own(tmp_path, msgspec.structs.replace(hello, models=(main, other))) as owner:
        port = (await owner.listen(LOOPBACK)).ports[0]
        await owner.admit(make_admit(tmp_path, models=("main", "other")), ignore)
        async with asyncio.TaskGroup() as group:
            for number in range(8):
                group.create_task(ask(port, model=("main", "other")[number % 2]))
            while provider.active < 2:
                await asyncio.sleep(0.01)
            provider.gate.set()
    assert (provider.peak, len(provider.got)) == (2, 8)


async def test_the_process_may_have_as_many_files_open_as_the_system_allows(
    tmp_path: Path, provider: Provider
) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    few = max(map(int, os.listdir("/proc/self/fd"))) + 256  # what this process has open stays open
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(soft, few), hard))
    try:
        async with own(tmp_path, make_hello(tmp_path, provider.url)) as owner:
            await owner.listen(LOOPBACK)
            [pid] = find_daemons(tmp_path)
            assert resource.prlimit(pid, resource.RLIMIT_NOFILE) == (hard, hard)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


async def test_keys_stand_in_no_argument_no_variable_and_no_file(
    tmp_path: Path, provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOMEBODYS_API_KEY", KEY)
    async with own(tmp_path, make_hello(tmp_path, provider.url)) as owner:
        port = (await owner.listen(LOOPBACK)).ports[0]
        await owner.admit(make_admit(tmp_path), ignore)
        assert (await ask(port)).status_code == 200
        assert provider.got[0].headers["Authorization"] == f"Bearer {KEY}"
        [pid] = find_daemons(tmp_path)
        for name in ("cmdline", "environ"):
            assert KEY.encode() not in Path(f"/proc/{pid}/{name}").read_bytes()
    for path in tmp_path.rglob("*"):
        assert not path.is_file() or KEY.encode() not in path.read_bytes(), path


async def test_a_gateway_inherits_no_descriptor_of_its_runner(tmp_path: Path, provider: Provider) -> None:
    reading, writing = os.pipe()
    os.set_inheritable(writing, True)
    async with own(tmp_path, make_hello(tmp_path, provider.url)) as owner:
        await owner.listen(LOOPBACK)
        os.close(writing)
        assert os.read(reading, 1) == b""  # nobody else has the other end
    os.close(reading)


async def test_killed_it_is_started_again_and_the_client_sees_one_cut_connection(
    tmp_path: Path, provider: Provider
) -> None:
    caps = ToldCaps(requests=4)
    async with own(tmp_path, make_hello(tmp_path, provider.url)) as owner:
        port = (await owner.listen(LOOPBACK)).ports[0]
        await owner.admit(make_admit(tmp_path, caps=caps), ignore)
        assert (await ask(port)).status_code == 200
        provider.gate = asyncio.Event()
        provider.begun.clear()
        cut = asyncio.ensure_future(ask(port, stream=True))
        await provider.begun.wait()
        [pid] = find_daemons(tmp_path)
        os.kill(pid, signal.SIGKILL)
        with pytest.raises(httpx.TransportError):
            await cut
        provider.gate.set()
        answer = await ask_until_served(port)
        assert answer.status_code == 200
        assert find_daemons(tmp_path) not in ([], [pid])
        assert (await ask(port)).status_code == 200
        assert (await ask(port)).status_code == 402  # what the first process counted is not forgotten
        await owner.dismiss("one")
    rows = list(read_calls(tmp_path / "trials/one/1"))
    assert [(row.ordinal, row.end) for row in rows] == [
        (0, "answered"),
        (1, "cut"),
        (2, "answered"),
        (3, "answered"),
        (4, "capped"),
    ]


async def ask_until_served(port: int) -> httpx.Response:
    while True:
        try:
            answer = await ask(port)
        except httpx.TransportError:
            continue
        if answer.status_code != 401:
            return answer


async def test_the_next_owner_finds_the_process_that_is_there(tmp_path: Path, provider: Provider) -> None:
    hello = make_hello(tmp_path, provider.url)
    async with own(tmp_path, hello) as first:
        port = (await first.listen(LOOPBACK)).ports[0]
        await first.admit(make_admit(tmp_path, pid=os.getpid()), ignore)
        pids = find_daemons(tmp_path)
    assert (await ask(port)).status_code == 200  # without any owner
    async with own(tmp_path, hello) as second:
        assert (await second.listen(LOOPBACK)).ports[0] == port
        assert find_daemons(tmp_path) == pids
        await second.admit(make_admit(tmp_path, pid=os.getpid()), ignore)
        assert (await ask(port)).status_code == 200
        await second.dismiss("one")
    wait_for(lambda: find_daemons(tmp_path) == [])
    assert [row.ordinal for row in read_calls(tmp_path / "trials/one/1")] == [0, 1]


async def test_without_an_owner_it_ends_when_the_last_sandbox_does(
    tmp_path: Path, provider: Provider
) -> None:
    sandbox = await asyncio.create_subprocess_exec("sleep", "600")
    async with own(tmp_path, make_hello(tmp_path, provider.url)) as owner:
        port = (await owner.listen(LOOPBACK)).ports[0]
        await owner.admit(make_admit(tmp_path, pid=sandbox.pid), ignore)
        await owner.admit(make_admit(tmp_path, "two", token="t2"), ignore)  # ends with its owner
    assert (await ask(port)).status_code == 200
    assert (await ask(port, token="t2")).status_code == 401
    sandbox.kill()
    await sandbox.wait()
    wait_for(lambda: find_daemons(tmp_path) == [])


async def test_a_reached_cap_is_told_once_it_is_on_disk(tmp_path: Path, provider: Provider) -> None:
    told: asyncio.Queue[tuple[Halting, list[str]]] = asyncio.Queue()
    folder = tmp_path / "trials/one/1"

    def hear(halting: Halting) -> None:
        told.put_nowait((halting, [row.end for row in read_calls(folder)]))

    async with own(tmp_path, make_hello(tmp_path, provider.url)) as owner:
        port = (await owner.listen(LOOPBACK)).ports[0]
        await owner.admit(make_admit(tmp_path, caps=ToldCaps(requests=1)), hear)
        assert (await ask(port)).status_code == 200
        assert (await ask(port)).status_code == 402
        capped, ends = await asyncio.wait_for(told.get(), 10)
    assert isinstance(capped, Capped)
    assert (capped.whose, capped.limit, ends) == ("attempt", "requests", ["answered", "capped"])


async def test_the_runs_budget_counts_what_is_on_disk_also_of_attempts_that_were_cut_off(
    tmp_path: Path, provider: Provider
) -> None:
    budget = ToldCaps(tokens=2600)  # a request can take about 2,080, and takes 150
    async with own(tmp_path, make_hello(tmp_path, provider.url, budget=budget)) as owner:
        port = (await owner.listen(LOOPBACK)).ports[0]
        for visit in ("one", "two", "three"):
            await owner.admit(make_admit(tmp_path, visit, token=visit), ignore)
        assert (await ask(port, token="one")).status_code == 200
        assert (await ask(port, token="two")).status_code == 200
        await owner.dismiss("one")
        (tmp_path / "trials/one/1").rename(tmp_path / "trials/one/1.cut-1")
        [pid] = find_daemons(tmp_path)
        os.kill(pid, signal.SIGKILL)
        answers = [await ask_until_served_as(port, "three") for _ in range(3)]
        assert [answer.status_code for answer in answers] == [200, 200, 402]


async def ask_until_served_as(port: int, token: str) -> httpx.Response:
    while True:
        try:
            answer = await ask(port, token=token)
        except httpx.TransportError:
            continue
        if answer.status_code != 401:
            return answer


async def test_of_two_that_start_at_once_one_serves(tmp_path: Path, provider: Provider) -> None:
    hello = make_hello(tmp_path, provider.url)
    async with own(tmp_path, hello) as first, own(tmp_path, hello) as second:
        async with asyncio.TaskGroup() as group:
            group.create_task(first.listen(LOOPBACK))
            group.create_task(second.listen(LOOPBACK))
        wait_for(lambda: len(find_daemons(tmp_path)) == 1)


async def test_a_sandbox_that_is_gone_is_refused_with_a_sentence(tmp_path: Path, provider: Provider) -> None:
    gone = await asyncio.create_subprocess_exec("true")
    await gone.wait()
    async with own(tmp_path, make_hello(tmp_path, provider.url)) as owner:
        with pytest.raises(SandboxFailed):
            await owner.admit(make_admit(tmp_path, pid=gone.pid, host=None), ignore)


async def test_a_path_that_is_longer_than_socket_addresses_is_fine(
    tmp_path: Path, provider: Provider
) -> None:
    run = tmp_path / ("a-long-name" * 10) / ("another-long-name" * 10)
    run.mkdir(parents=True)
    async with own(run, make_hello(run, provider.url)) as owner:
        assert (await owner.listen(LOOPBACK)).ports[0] > 0


async def test_a_phase_whose_admission_was_not_waited_for_is_let_go_all_the_same(
    tmp_path: Path, provider: Provider
) -> None:
    async with own(tmp_path, make_hello(tmp_path, provider.url)) as owner:
        port = (await owner.listen(LOOPBACK)).ports[0]
        admission = asyncio.ensure_future(owner.admit(make_admit(tmp_path), ignore))
        await asyncio.sleep(0)  # it has been asked for
        admission.cancel()
        await asyncio.wait([admission])
        await owner.dismiss("one")
        assert (await ask(port)).status_code == 401


async def test_without_an_owner_it_serves_only_for_so_long(tmp_path: Path, provider: Provider) -> None:
    place = GatewayPlace(tmp_path / "gateway")
    place.make()
    daemon = asyncio.ensure_future(Daemon(place, orphaned_s=1.0).run())
    async with asyncio.timeout(30):
        while not (tmp_path / "gateway/socket").exists():
            await asyncio.sleep(0.01)
        async with own(tmp_path, make_hello(tmp_path, provider.url)) as owner:
            port = (await owner.listen(LOOPBACK)).ports[0]
            await owner.admit(make_admit(tmp_path, pid=os.getpid()), ignore)
        let_go_at = asyncio.get_running_loop().time()
        assert (await ask(port)).status_code == 200  # its sandbox lives, though nobody owns it
        await daemon
        assert asyncio.get_running_loop().time() - let_go_at >= 0.9
    with pytest.raises(httpx.ConnectError):
        await ask(port)
    assert find_daemons(tmp_path) == []  # no other one was started
    assert [row.end for row in read_calls(tmp_path / "trials/one/1")] == ["answered"]
