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
from labrunner.store.layout import RunPaths
from tests.kit.gateway.experiments import CLIENT, Setting, run
from tests.kit.gateway.killable import Killable
from tests.kit.gateway.owning import find_daemons
from tests.kit.gateway.provider import Provider
from tests.kit.gateway.sites import find_address

FLOODS = 12
"""Processes that hold 850 connections each: more than ten thousand."""
_TRY = '''
import base64, select, socket, urllib.parse

WORLD = json.loads(base64.b64decode("@WORLD@"))
DOOR = urllib.parse.urlsplit(os.environ["OPENAI_BASE_URL"])
PROXY = urllib.parse.urlsplit(os.environ["HTTP_PROXY"])
is_bridged = DOOR.hostname != "127.0.0.1"
word = base64.b64encode(f"{PROXY.username}:{PROXY.password}".encode()).decode()
BADGE = f"proxy-authorization: Basic {word}\\r\\n" if PROXY.password else ""
reached, notes = [], {}
os.environ["RES_OPTIONS"] = "timeout:1 attempts:1"

def tries(name, work):
    """Whatever gives something back was reached."""
    try:
        if (found := work()) not in (None, b"", False):
            reached.append([name, repr(found)[:200]])
    except Exception as error:
        notes[name] = repr(error)[:200]

def connect(family, place, kind=socket.SOCK_STREAM, said=b"x\\r\\n\\r\\n"):
    with socket.socket(family, kind) as client:
        client.settimeout(1)
        client.connect(place)
        client.send(said)
        return client.recv(100) or b"connected"

def scan(host, ports):
    found = []
    for port in ports:
        with socket.socket() as client:
            client.settimeout(1)
            # A port that is ours by chance answers itself.
            if client.connect_ex((host, port)) == 0 and client.getsockname() != (host, port):
                found.append(port)
    return found

def proxy(said):
    with socket.create_connection((PROXY.hostname, PROXY.port), 5) as client:
        client.sendall(said.replace("host: ", BADGE + "host: ", 1).encode("latin-1"))
        head = client.recv(65536)
        if b" 200 " not in head[:20]:
            notes["proxy " + said[:60]] = repr(head[:160])
            return None
        client.sendall(b"GET / HTTP/1.1\\r\\nhost: x\\r\\n\\r\\n")
        client.settimeout(3)
        return client.recv(100)

def model(said, ok=b" 200 "):
    with socket.create_connection((DOOR.hostname, DOOR.port), 5) as client:
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
if (found := scan("127.0.0.1", range(1, 65536))) != ([] if is_bridged else doors):
    reached.append(["ports of loopback", found])
if is_bridged:
    places = sorted({*range(1, 1025), *doors, *(port for _, port in WORLD["tcp"])})
    notes["ports of the host"] = scan(DOOR.hostname, places)
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

PLACE = (DOOR.hostname, DOOR.port)
BEGIN = "POST /main/v1/chat/completions HTTP/1.1\\r\\nhost: x\\r\\ncontent-type: application/json\\r\\n"
SOUND = json.dumps({"model": "gpt-4o", "messages": [], "max_tokens": 5})
INNER = json.dumps({"model": "smuggled", "messages": [], "max_tokens": 5})

def say(*lines, token=key, body=""):
    head = "".join(line + "\\r\\n" for line in (f"authorization: Bearer {token}", *lines))
    return BEGIN + head + "\\r\\n" + body

HIDDEN = say(f"content-length: {len(INNER)}", token="another-attempt's", body=INNER)
LONG = f"content-length: {len(SOUND)}"
LAST = f"\\r\\n{SOUND}\\r\\n0\\r\\n\\r\\n"
SMUGGLED = {
    "a length and chunks": say(LONG, "transfer-encoding: chunked", body="0\\r\\n\\r\\n" + HIDDEN),
    "two lengths": say(LONG, f"content-length: {len(SOUND + HIDDEN)}", body=SOUND + HIDDEN),
    "a length with a sign": say(f"content-length: +{len(SOUND)}", body=SOUND + HIDDEN),
    "chunks by another name": say(LONG, "transfer-encoding: xchunked", body=SOUND + HIDDEN),
    "a space before the colon": say("content-length : 0", LONG, body=SOUND + HIDDEN),
    "a chunk that lies": say("transfer-encoding: chunked", body=f"{len(SOUND):x};x={HIDDEN}" + LAST),
    "two requests, one token": say(LONG, body=SOUND + HIDDEN),
    "a header in a header": say(LONG, "x-title: a\\rx-injected: b", body=SOUND),
    "a header behind a zero": say(LONG, "x-title: a\\0\\nx-injected: b", body=SOUND),
}

def smuggle(said):
    """More answers than one request may have."""
    with socket.create_connection(PLACE, 5) as client:
        client.sendall(said.encode("latin-1"))
        client.settimeout(3)
        heard = b""
        while piece := client.recv(65536):
            heard += piece
            if heard.count(b"HTTP/1.1 ") > 1 or b" 4" in heard[:13]:
                break
        return heard.count(b"HTTP/1.1 200") > 1

for name, said in SMUGGLED.items():
    tries(f"smuggled: {name}", lambda: smuggle(said))

def pour():
    """A gigabyte: what is said to it."""
    sent, piece = 0, b" " * (1 << 20)
    with socket.create_connection(PLACE, 30) as client:
        client.sendall(say(f"content-length: {1 << 30}").encode())
        try:
            while sent < 1 << 30 and not select.select([client], [], [], 0)[0]:
                sent += client.send(piece)
            return client.recv(100)
        except OSError:
            return b"cut"

if b" 413 " not in (told := pour()):
    reached.append(["a gigabyte", repr(told)])
slow = [socket.create_connection(PLACE, 5) for _ in range(40)]
for each in slow:
    each.sendall(BEGIN[:30].encode())
ready, done = os.pipe()
floods = []
for _ in range(FLOODS):
    if (pid := os.fork()) == 0:
        held = [socket.socket() for _ in range(850)]
        for each in held:
            each.setblocking(False)
            each.connect_ex(PLACE)
        os.write(done, b"x")
        import signal
        signal.pause()
    floods.append(pid)
for _ in floods:
    os.read(ready, 1)
allowed = urllib.request.urlopen(WORLD["allowed"], timeout=60).read().decode()
answered = ask()
for pid in floods:
    os.kill(pid, 9)
report = {"reached": reached, "allowed": allowed, "answered": answered[:30], "notes": notes}
print(json.dumps(report, indent=1), flush=True)
open("answer.txt", "w").write(json.dumps(report))
'''

JUDGE = """
import json, os, pathlib
report = json.loads(pathlib.Path(os.environ["AGENTLAB_WORKSPACE"], "answer.txt").read_text())
is_good = report["reached"] == REACHED and report["allowed"] == "here"
is_good = is_good and report["answered"].startswith("{")
verdict = "pass" if is_good and " 200 " in report["notes"]["own token"] else "fail"
pathlib.Path(os.environ["AGENTLAB_BENCHMARK_SCORE_PATH"]).write_text(json.dumps({"verdict": verdict}))
"""


@dataclass(kw_only=True)
class World:
    """What there is on the host, and who came to it."""

    tcp: list[tuple[str, int]] = field(default_factory=list)
    unix: list[str] = field(default_factory=list)
    everywhere: int = 0
    """A port on all addresses."""
    allowed: tuple[str, int] = ("", 0)
    came: list[str] = field(default_factory=list)

    @property
    def line(self) -> str:
        """What the list has."""
        return f"{self.allowed[0]}:{self.allowed[1]}"

    @property
    def careless(self) -> list[tuple[str, int]]:
        """Places on all addresses that are no loopback: a bridge leads there."""
        return [(host, port) for host, port in self.tcp if ":" not in host and not host.startswith("127.")]

    def write_agent(self, run_dir: Path) -> str:
        control = str(run_dir / "gateway" / "socket")
        told = {
            "tcp": self.tcp,
            "unix": [*self.unix, control, "/var/run/docker.sock", "/run/docker.sock", "\0/tmp/.X11-unix/X0"],
            "resolvers": ["8.8.8.8", "127.0.0.53", *_read_resolvers()],
            "token": "another-attempt's",
            "allowed": f"http://{self.line}/",
        }
        encoded = base64.b64encode(json.dumps(told).encode()).decode()
        return CLIENT + _TRY.replace("@WORLD@", encoded).replace("FLOODS", str(FLOODS))


def _read_resolvers() -> list[str]:
    lines = Path("/etc/resolv.conf").read_text().splitlines()
    return [line.split()[1] for line in lines if line.startswith("nameserver ")]


def _own_addresses() -> list[str]:
    """Addresses of this host that are no loopback: of its name, and the one that it would send from."""
    found = {str(place[0]) for *_, place in socket.getaddrinfo(socket.gethostname(), None)}
    with socket.socket(type=socket.SOCK_DGRAM) as asking, suppress(OSError):
        asking.connect(("192.0.2.1", 9))  # nothing is sent
        found.add(asking.getsockname()[0])
    return sorted(each for each in found if ":" not in each and not each.startswith("127."))


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
        world.everywhere = port if each.family == socket.AF_INET else world.everywhere
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


def _check_that_nothing_was_smuggled(provider: Provider) -> None:
    asked = [each.body["model"] for each in provider.got if each.body is not None]
    assert set(asked) == {"gpt-4o"}
    assert not [each for each in provider.got if "x-injected" in {name.lower() for name in each.headers}]


async def check_that_nothing_else_is_reached(
    folder: Path, provider: Provider, kind: str, plan: Mapping[str, object] | None = None
) -> None:
    """Let two agents try everything: they have their model and one host, and nothing else came to be."""
    async with run_world() as world:
        setting = Setting(
            kind=kind,
            url=provider.url,
            agent=world.write_agent(folder / "the-run"),
            grader=JUDGE.replace("REACHED", "[]"),
            plan=dict(plan or {}),
            hosts=(world.line,),
            tasks=2,
            timeout_s=300.0,
        )
        ran = await run(setting.make(), folder)
        assert [trial.verdict for trial in ran.trials()] == ["pass", "pass"]
        assert set(world.came) == {"allowed"}
    _check_that_nothing_was_smuggled(provider)
    for task in range(2):
        _check_doors(ran.attempt(task), world)
    assert find_daemons(ran.paths.root) == []


def _check_doors(attempt: Path, world: World) -> None:
    events = list(read_doors(attempt))
    assert {"address_not_allowed", "not_allowed", "bad_request"} <= {each.reason for each in events}
    assert [each.host for each in events if each.end == "closed"] == [world.allowed[0]]


async def check_that_a_plain_users_agents_reach_nothing_else(
    plain: Path, provider: Provider, sandbox: str, *, is_bridged: bool
) -> None:
    """The same with `lab` run by a plain user; over a bridge careless services of the host are reached."""
    async with run_world() as world:
        names = [f"tcp {host}:{port}" for host, port in world.careless] if is_bridged else []
        lab = Killable(
            folder=plain / "work",
            url=provider.url,
            sandbox=sandbox,
            key="null",
            plain=plain,
            tasks=2,
            agent=world.write_agent(plain / "work/.lab/runs/the-run"),
            grader=JUDGE.replace('report["reached"]', '[name for name, _ in report["reached"]]').replace(
                "REACHED", repr(names)
            ),
            network=f"{{models: [main], allow: ['{world.line}']}}",
        )
        lab.write()
        await lab.finish()
        told = [json.loads(each) for each in lab.answers()]
        verdicts = [
            json.loads(line)["verdict"] for line in RunPaths(lab.run).trials.read_bytes().splitlines()
        ]
        assert verdicts == ["pass", "pass"], [[each["reached"], each["notes"]] for each in told]
        assert set(world.came) == ({"allowed", "all"} if is_bridged else {"allowed"})
    _check_that_nothing_was_smuggled(provider)
    for attempt in lab.attempts():
        _check_doors(attempt, world)
    if is_bridged:
        for each in told:
            found = set(each["notes"]["ports of the host"])
            assert {9701, 9702, world.everywhere} <= found
            assert world.tcp[-1][1] not in found  # what listens on the loopback alone
    assert find_daemons(lab.run) == []
