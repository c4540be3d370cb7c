import asyncio
import shutil
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from labrunner.gateway.hosts.resolving import open_resolver
from tests.kit.gateway.greetings import greet
from tests.kit.gateway.hostfront import run_hosts
from tests.kit.gateway.sites import Site, find_address, run_site

ROOT = Path(__file__).parents[3]
GET = b"GET http://site.test/ HTTP/1.1\r\nhost: site.test\r\nconnection: close\r\n\r\n"
CONNECT = b"CONNECT site.test:443 HTTP/1.1\r\nhost: site.test:443\r\nconnection: close\r\n\r\n"


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    async with run_site(tmp_path) as running:
        yield running


@pytest.mark.parametrize("said", [GET, CONNECT])
@pytest.mark.parametrize(
    "address",
    [
        *("127.0.0.1", "10.0.0.1", "169.254.169.254", "192.168.0.1", "100.100.100.200", "0.0.0.0"),
        *("::1", "fe80::1", "fd00:ec2::254", "::ffff:127.0.0.1", "64:ff9b::7f00:1", "2002:7f00:1::"),
    ],
)
async def test_a_name_that_is_at_a_private_address_is_refused(
    tmp_path: Path, said: bytes, address: str
) -> None:
    async with run_hosts(tmp_path, ["site.test"], {"site.test": [[address]]}) as front:
        answer = await front.speak(said)
        assert answer.startswith(b"HTTP/1.1 403 ")
        assert b"which is no public address of another machine" in answer
        (event,) = front.events()
        assert (event.end, event.reason, event.address) == ("refused", "private_address", None)


async def test_of_many_addresses_only_those_that_may_be_reached_are_tried(tmp_path: Path, site: Site) -> None:
    other = find_address()  # nobody is there, and it stands in the list
    names = {"site.test": [["10.0.0.1", other, "::1", site.address]]}
    async with run_hosts(tmp_path, ["site.test", site.address, other], names) as front:
        assert (await front.speak(GET)).startswith(b"HTTP/1.1 200 ")
        (event,) = front.events()
        assert event.address == site.address


async def test_an_address_in_the_list_holds_for_its_port_only(tmp_path: Path, site: Site) -> None:
    names = {"site.test": [[site.address]]}
    async with run_hosts(tmp_path, ["site.test", f"{site.address}:8080"], names) as front:
        assert (await front.speak(GET)).startswith(b"HTTP/1.1 403 ")
        assert [each.reason for each in front.events()] == ["private_address"]


async def test_a_name_is_looked_up_once_for_a_connection(tmp_path: Path, site: Site) -> None:
    """Who answers otherwise the second time gains nothing: nobody asks."""
    names = {"site.test": [[site.address], ["127.0.0.1"]]}
    async with run_hosts(tmp_path, ["site.test", site.address], names) as front:
        assert (await front.speak(GET)).startswith(b"HTTP/1.1 200 ")
        assert front.names.asked == ["site.test"]
        assert (await front.speak(GET)).startswith(b"HTTP/1.1 403 ")
        assert [each.reason for each in front.events()] == [None, "private_address"]
    assert len(site.seen) == 1


async def test_localhost_in_the_list_is_the_hosts_own_loopback(tmp_path: Path) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.0 200 OK\r\n\r\nhere")
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        said = "GET http://{0}:{1}/ HTTP/1.1\r\nhost: {0}:{1}\r\nconnection: close\r\n\r\n"
        async with run_hosts(tmp_path, [f"localhost:{port}"]) as front:
            for host, is_there in {"localhost": True, "127.0.0.1": True, "127.0.0.2": False}.items():
                answer = await front.speak(said.format(host, port).encode())
                assert answer.endswith(b"here\r\n0\r\n\r\n") is is_there
            assert front.names.asked == []


async def test_what_can_not_be_reached_is_told(tmp_path: Path) -> None:
    nobody = find_address()
    names: dict[str, list[list[str]]] = {"site.test": [[nobody]], "none.test": [[]]}
    allow = ["site.test", "none.test", "unknown.test", nobody]
    async with run_hosts(tmp_path, allow, names) as front:
        for name, reason in {
            "site": "unreachable",
            "none": "unknown_name",
            "unknown": "unknown_name",
        }.items():
            answer = await front.speak(GET.replace(b"site", name.encode()))
            assert answer.startswith(b"HTTP/1.1 502 ")
            assert front.events()[-1].reason == reason
        assert {each.end for each in front.events()} == {"failed"}


async def test_a_lookup_that_hangs_is_let_go_and_holds_up_no_other(tmp_path: Path, site: Site) -> None:
    allow = ["site.test", "*.slow.test", site.address]
    names = {"site.test": [[site.address]]}
    async with run_hosts(tmp_path, allow, names, lookup_s=0.5) as front:
        asked = asyncio.Semaphore(0)

        async def hang(name: str) -> None:
            asked.release()
            if name != "site.test":
                await asyncio.get_running_loop().create_future()

        front.names.before = hang
        async with asyncio.TaskGroup() as group:
            slow = [
                group.create_task(front.speak(GET.replace(b"site.test", b"%d.slow.test" % number)))
                for number in range(3)
            ]
            for _ in slow:
                await asyncio.wait_for(asked.acquire(), 20)
            assert (await front.speak(GET)).startswith(b"HTTP/1.1 200 ")
        assert all(each.result().startswith(b"HTTP/1.1 504 ") for each in slow)


async def test_the_systems_own_lookup() -> None:
    with open_resolver() as resolve:
        assert "127.0.0.1" in map(str, await resolve("localhost"))
        with pytest.raises(OSError, match=r"."):
            await resolve("no-such-name.invalid")


async def test_nothing_is_sent_before_the_greeting_was_read(tmp_path: Path, site: Site) -> None:
    async with run_hosts(tmp_path, ["site.test", site.address], {"site.test": [[site.address]]}) as front:
        await front.speak(CONNECT + greet("other.test"))
        (event,) = await front.wait_events(1)
        assert (event.reason, event.sent) == ("other_name", 0)


IN_A_NAMESPACE = """
import asyncio, sys
from pathlib import Path
from tests.kit.gateway.hostfront import run_hosts

async def main():
    server = await asyncio.start_server(lambda reader, writer: writer.close(), "0.0.0.0", 80)
    names = {"site.test": [["8.8.8.8"]]}
    async with server:
        for allow in (["site.test"], ["site.test", "8.8.8.8"]):
            async with run_hosts(Path(sys.argv[1]) / str(len(allow)), allow, names) as front:
                await front.speak(b"GET http://site.test/ HTTP/1.0\\r\\n\\r\\n")
                print(front.events()[0].reason)

asyncio.run(main())
"""


@pytest.mark.skipif(shutil.which("ip") is None, reason="needs ip")
async def test_this_host_is_not_reached_by_a_name_though_its_address_is_public(tmp_path: Path) -> None:
    """In a network namespace of its own the loopback has an address that looks public."""
    ready = 'ip link set lo up && ip address add 8.8.8.8/32 dev lo && exec "$@"'
    command = ["unshare", "--user", "--map-root-user", "--net", "sh", "-c", ready, "sh"]
    process = await asyncio.create_subprocess_exec(
        *command, sys.executable, "-c", IN_A_NAMESPACE, str(tmp_path), stdout=-1, stderr=-1, cwd=ROOT
    )
    out, trouble = await process.communicate()
    if b"Operation not permitted" in trouble and not out:
        pytest.skip("this user may make no network namespace")
    refused, reached = out.split()
    assert refused == b"private_address", trouble.decode()
    assert reached in {b"bad_answer", b"cut"}  # its server says nothing, and closes
