"""An agent that tries to reach anything but its doors, and the things on the host that it tries."""

import asyncio
import base64
import json
import os
import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from labrunner.gateway.recording.doorjournal import read_doors
from tests.kit.gateway.experiments import CLIENT, Setting, run
from tests.kit.gateway.owning import find_daemons
from tests.kit.gateway.sites import find_address

_TRY = '''
import base64, itertools, socket, struct, ssl

WORLD = json.loads(base64.b64decode("@WORLD@"))
reached, notes = [], {}

def tries(name, work):
    """Whatever gives something back was reached."""
    try:
        if (found := work()) not in (None, b"", False):
            reached.append([name, repr(found)[:200]])
    except Exception as error:
        notes[name] = repr(error)[:200]

def connect(family, place, kind=socket.SOCK_STREAM, said=b"x\\r\\n\\r\\n"):
    with socket.socket(family, kind) as client:
        client.settimeout(2)
        client.connect(place)
        client.send(said)
        return client.recv(100) or b"connected"

def scan():
    found = []
    for port in range(1, 65536):
        with socket.socket() as client:
            client.settimeout(1)
            # A port that is ours by chance answers itself.
            if client.connect_ex(("127.0.0.1", port)) == 0 and client.getsockname()[1] != port:
                found.append(port)
    return found

def proxy(said):
    with socket.create_connection(("127.0.0.1", 9702), 5) as client:
        client.sendall(said.encode("latin-1"))
        head = client.recv(65536)
        if b" 200 " not in head[:20]:
            notes["proxy " + said[:60]] = repr(head[:160])
            return None
        client.sendall(b"GET / HTTP/1.1\\r\\nhost: x\\r\\n\\r\\n")
        client.settimeout(3)
        return client.recv(100)

def model(said, ok=b" 200 "):
    with socket.create_connection(("127.0.0.1", 9701), 5) as client:
        client.sendall(said.encode("latin-1"))
        head = client.recv(65536)
        return head if ok in head[:20] else None

QUERY = bytes([1, 2, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 7]) + b"example" + bytes([0, 0, 1, 0, 1])
for host, port in WORLD["tcp"]:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    tries(f"tcp {host}:{port}", lambda: connect(family, (host, port)))
for host in WORLD["resolvers"]:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    tries(f"dns {host}", lambda: connect(family, (host, 53), socket.SOCK_DGRAM, QUERY))
for host in ("1.1.1.1", "169.254.169.254", "2606:4700:4700::1111", "10.0.0.1", "172.17.0.1", "192.168.0.1"):
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    for port in (53, 80, 443):
        tries(f"out {host}:{port}", lambda: connect(family, (host, port)))
for name in ("example.com", "host.docker.internal", "gateway.docker.internal", "metadata.google.internal"):
    tries(f"name {name}", lambda: socket.getaddrinfo(name, 80))
for path in WORLD["unix"]:
    tries(f"unix {path!r}", lambda: connect(socket.AF_UNIX, path))
for port in (1, 22, 1024, 9701):
    tries(f"vsock {port}", lambda: connect(socket.AF_VSOCK, (2, port)))

def ping():
    with socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP) as raw:
        raw.settimeout(2)
        raw.sendto(b"\\x08\\x00\\xf7\\xff\\x00\\x00\\x00\\x00", ("1.1.1.1", 0))
        return raw.recv(100)

def shout():
    """Frames on any wire but our own loopback."""
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as raw:
        for _, name in socket.if_nameindex():
            if name != "lo":
                raw.bind((name, 0))
                if "UP" in open(f"/sys/class/net/{name}/operstate").read().upper():
                    return name

tries("ping", ping)
tries("frames", shout)
for pid in ("1", str(os.getppid())):
    def join():
        with open(f"/proc/{pid}/ns/net") as place:
            before = os.readlink("/proc/self/ns/net")
            os.setns(place.fileno(), 0) if hasattr(os, "setns") else None
            return os.readlink("/proc/self/ns/net") != before
    tries(f"namespace of {pid}", join)

doors = [9701, 9702]
if (found := scan()) != doors:
    reached.append(["ports of loopback", found])
others = [("localhost", 22), ("169.254.169.254", 80), ("evil.test", 443), ("2130706433", 80)]
for host, port in [*WORLD["tcp"], *others]:
    place = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    tries(f"CONNECT {place}", lambda: proxy(f"CONNECT {place} HTTP/1.1\\r\\nhost: {place}\\r\\n\\r\\n"))
    tries(f"GET {place}", lambda: proxy(f"GET http://{place}/ HTTP/1.1\\r\\nhost: {place}\\r\\n\\r\\n"))
    tries(f"model CONNECT {place}", lambda: model(f"CONNECT {place} HTTP/1.1\\r\\nhost: {place}\\r\\n\\r\\n"))
    tries(f"model GET {place}", lambda: model(f"GET http://{place}/ HTTP/1.1\\r\\nhost: {place}\\r\\n\\r\\n"))
key = os.environ["OPENAI_API_KEY"]
LIST = "GET /main/v1/models HTTP/1.1\\r\\nhost: x\\r\\nauthorization: Bearer KEY\\r\\n\\r\\n"
for word in ("", "x", key[:-1], key + "x", WORLD["token"]):
    tries(f"token {word!r}", lambda: model(LIST.replace("KEY", word)))
notes["own token"] = repr(model(LIST.replace("KEY", key)))
for name, value in os.environ.items():
    if "sk-the-real-key" in value:
        reached.append(["the real key", name])
flood = [socket.socket() for _ in range(800)]
for each in flood:
    each.setblocking(False)
    each.connect_ex(("127.0.0.1", 9701))
allowed = urllib.request.urlopen(WORLD["allowed"], timeout=60).read().decode()
answered = ask()
report = {"reached": reached, "allowed": allowed, "answered": answered[:30], "notes": notes}
print(json.dumps(report, indent=1), flush=True)
open("answer.txt", "w").write(json.dumps(report))
'''

JUDGE = """
import json, os, pathlib
report = json.loads(pathlib.Path(os.environ["AGENTLAB_WORKSPACE"], "answer.txt").read_text())
is_good = report["reached"] == [] and report["allowed"] == "here" and report["answered"].startswith("{")
verdict = "pass" if is_good and " 200 " in report["notes"]["own token"] else "fail"
pathlib.Path(os.environ["AGENTLAB_BENCHMARK_SCORE_PATH"]).write_text(json.dumps({"verdict": verdict}))
"""


@dataclass(kw_only=True)
class World:
    """What there is on the host, and who came to it."""

    tcp: list[tuple[str, int]] = field(default_factory=list)
    unix: list[str] = field(default_factory=list)
    allowed: tuple[str, int] = ("", 0)
    came: list[str] = field(default_factory=list)

    @property
    def line(self) -> str:
        """What the list has."""
        return f"{self.allowed[0]}:{self.allowed[1]}"

    def write_agent(self, run_dir: Path) -> str:
        control = str(run_dir / "gateway" / "socket")
        told = {
            "tcp": self.tcp,
            "unix": [*self.unix, control, "/var/run/docker.sock", "/run/docker.sock", "\0/tmp/.X11-unix/X0"],
            "resolvers": ["8.8.8.8", "127.0.0.53", "127.0.0.11", *_read_resolvers()],
            "token": "another-attempt's",
            "allowed": f"http://{self.line}/",
        }
        return CLIENT + _TRY.replace("@WORLD@", base64.b64encode(json.dumps(told).encode()).decode())


def _read_resolvers() -> list[str]:
    lines = Path("/etc/resolv.conf").read_text().splitlines()
    return [line.split()[1] for line in lines if line.startswith("nameserver ")]


def _own_addresses() -> list[str]:
    """Addresses of this host that are no loopback."""
    found = socket.getaddrinfo(socket.gethostname(), None, type=socket.SOCK_STREAM)
    return [str(place[0]) for *_, place in found if not str(place[0]).startswith("127.")]


@asynccontextmanager
async def run_world() -> AsyncIterator[World]:
    """Servers on the host: loopback, all addresses, an abstract socket, and one that is allowed."""
    world = World()

    def serve(name: str) -> Any:
        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            world.came.append(name)
            with suppress(ConnectionError, asyncio.IncompleteReadError):
                await reader.readuntil(b"\r\n\r\n")
                writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\nconnection: close\r\n\r\nhere")
            writer.close()

        return answer

    abstract = f"\0lab-test-{os.getpid()}"
    servers = [
        await asyncio.start_server(serve("all"), None, 0),
        await asyncio.start_server(serve("loopback"), "127.0.0.1", 0),
        await asyncio.start_server(serve("allowed"), find_address(), 0),
        await asyncio.start_unix_server(serve("unix"), abstract),
    ]
    everywhere, loopback, allowed, _ = servers
    for each in everywhere.sockets:
        port = each.getsockname()[1]
        hosts = ["::1"] if each.family == socket.AF_INET6 else ["127.0.0.1", *_own_addresses()]
        world.tcp += [(host, port) for host in hosts]
    world.tcp.append(("127.0.0.1", loopback.sockets[0].getsockname()[1]))
    world.allowed = allowed.sockets[0].getsockname()[:2]
    world.unix = [abstract]
    try:
        yield world
    finally:
        for server in servers:
            server.close()


async def check_that_nothing_else_is_reached(
    folder: Path, url: str, kind: str, plan: Mapping[str, object] | None = None
) -> None:
    """Let two agents try everything: they have their model and one host, and nothing else came to be."""
    async with run_world() as world:
        setting = Setting(
            kind=kind,
            url=url,
            agent=world.write_agent(folder / "the-run"),
            grader=JUDGE,
            plan=dict(plan or {}),
            hosts=(world.line,),
            tasks=2,
            timeout_s=300.0,
        )
        ran = await run(setting.make(), folder)
        assert [trial.verdict for trial in ran.trials()] == ["pass", "pass"]
        assert set(world.came) == {"allowed"}
    for task in range(2):
        events = list(read_doors(ran.attempt(task)))
        assert {"address_not_allowed", "not_allowed", "bad_request"} <= {each.reason for each in events}
        assert [each.host for each in events if each.end == "closed"] == [world.allowed[0]]
    assert find_daemons(ran.paths.root) == []
