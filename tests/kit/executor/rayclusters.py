"""Real Ray clusters on this host: several nodes on loopback addresses, each with a folder of its own.

Every process of a cluster bears its mark in its environment: that is how its end finds them, and no others.
"""

import atexit
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pytest

MARK: Final = "LAB_TEST_RAY_CLUSTER"
ADDRESS: Final = "LAB_TEST_RAY_ADDRESS"
NODES_DIR: Final = "LAB_TEST_RAY_NODES"
STORE_BYTES: Final = 100_000_000
START_S: Final = 100.0
STARTS: Final = 3


@dataclass(slots=True, kw_only=True)
class RayProcess:
    """One node, as `ray start` keeps it."""

    name: str
    process: "subprocess.Popen[bytes]"
    mark: str

    def pids(self, word: str) -> list[int]:
        """Those of its processes whose command holds a word."""
        return [pid for pid, command in _marked(self.mark) if word in command]

    def kill_raylet(self) -> None:
        """As a machine that falls over: its raylet is gone, and with it whatever it watched."""
        for pid in self.pids("raylet/raylet"):
            os.kill(pid, signal.SIGKILL)

    def stop(self) -> None:
        """End everything of it."""
        _end(self.mark)
        self.process.wait(30)


@dataclass(slots=True, kw_only=True)
class RayCluster:
    """A cluster of this host."""

    folder: Path
    port: int
    nodes: dict[str, RayProcess] = field(default_factory=dict)

    @classmethod
    def make(cls) -> "RayCluster":
        """A cluster without nodes. Its folder's name is short: Ray puts sockets into it."""
        return cls(folder=Path(tempfile.mkdtemp(prefix="lab-ray-", dir="/tmp")), port=_free_port())

    @property
    def address(self) -> str:
        """Where its head is."""
        return f"127.0.0.2:{self.port}"

    @property
    def nodes_dir(self) -> Path:
        """Where its nodes work."""
        return self.folder / "nodes"

    def node_dir(self, name: str) -> Path:
        """Where one of them does."""
        return self.nodes_dir / name

    def start(
        self, name: str, *, labels: Mapping[str, str] | None = None, env: Mapping[str, str] | None = None
    ) -> RayProcess:
        """Start a node, or one again that was stopped; the first one is the head."""
        # Ray gives its own processes a quarter of a minute, whatever else the host is doing.
        for _ in range(STARTS):
            node = self._try_to_start(name, labels or {}, env or {})
            if self._has_started(node):
                self.nodes[name] = node
                return node
            node.stop()
        told = self.logs()
        self.close()
        pytest.fail(f"the Ray node {name} did not start:\n{told}")

    def _try_to_start(self, name: str, labels: Mapping[str, str], env: Mapping[str, str]) -> RayProcess:
        mark = f"{self.folder.name}-{name}-{secrets.token_hex(4)}"
        own = {MARK: mark, "LAB_NODE_DIR": str(self.nodes_dir), "RAY_agent_register_timeout_ms": "100000"}
        log = (self.folder / f"{name}.log").open("wb")
        process = subprocess.Popen(
            [str(Path(sys.executable).with_name("ray")), "start", *self._words(name, labels)],
            env={**_plain_environment(), **own, **env},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd=self.folder,
            start_new_session=True,
        )
        log.close()
        return RayProcess(name=name, process=process, mark=mark)

    def close(self) -> None:
        """End everything, and remove what it left."""
        for node in reversed(self.nodes.values()):
            node.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def logs(self) -> str:
        """What its nodes said when they were started."""
        return "\n".join(path.read_text(errors="replace")[-2000:] for path in self.folder.glob("*.log"))

    def _words(self, name: str, labels: Mapping[str, str]) -> list[str]:
        before = list(self.nodes)
        where = f"127.0.0.{2 + (before.index(name) if name in before else len(before))}"
        common = ["--block", f"--node-ip-address={where}", f"--node-name={name}", "--num-cpus=1"]
        common += [f"--object-store-memory={STORE_BYTES}", "--disable-usage-stats"]
        common += ["--min-worker-port=0", "--max-worker-port=0"]
        if labels:
            common.append("--labels=" + ",".join(f"{key}={value}" for key, value in labels.items()))
        if before and name != before[0]:
            return [*common, f"--address={self.address}"]
        head = ["--head", f"--port={self.port}", "--include-dashboard=false"]
        return [*common, *head, f"--temp-dir={self.folder}/ray"]

    def _has_started(self, node: RayProcess) -> bool:
        deadline = time.monotonic() + START_S
        log = self.folder / f"{node.name}.log"
        while b"Ray runtime started" not in log.read_bytes():
            if node.process.poll() is not None or time.monotonic() > deadline:
                return False
            time.sleep(0.05)
        return True


def _plain_environment() -> dict[str, str]:
    """Without what a test runner sets, and with bytecode: each node loads Ray half a dozen times."""
    dropped = {"PYTHONDONTWRITEBYTECODE", "RAY_ADDRESS", "PYTEST_CURRENT_TEST", ADDRESS}
    return {name: value for name, value in os.environ.items() if name not in dropped}


def _free_port() -> int:
    with socket.socket() as made:
        made.bind(("127.0.0.2", 0))
        port: int = made.getsockname()[1]
        return port


def _marked(mark: str) -> list[tuple[int, str]]:
    """Processes that bear a mark, with their commands."""
    numbers = [int(folder.name) for folder in Path("/proc").iterdir() if folder.name.isdecimal()]
    return [(pid, _command(pid)) for pid in numbers if _bears(pid, mark)]


def _bears(pid: int, mark: str) -> bool:
    with suppress(OSError):
        return f"{MARK}={mark}".encode() in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    return False


def _command(pid: int) -> str:
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    return ""


def _end(mark: str) -> None:
    deadline = time.monotonic() + 30
    while (left := _marked(mark)) and time.monotonic() < deadline:
        for pid, _ in left:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.05)


@contextmanager
def running_nodes(
    *names: str,
    labels: Callable[[str], Mapping[str, str]] = lambda _: {},
    env: Mapping[str, str] | None = None,
) -> Iterator[RayCluster]:
    """A cluster of these nodes, the head first, while inside."""
    pytest.importorskip("ray", reason="needs labrunner[ray]")
    cluster = RayCluster.make()
    try:
        for name in names:
            cluster.start(name, labels=labels(name), env=env)
        yield cluster
    finally:
        cluster.close()


@contextmanager
def running_three() -> Iterator[RayCluster]:
    """Nodes n1 to n3, of which the label `of2: y` asks for the first two, and so on."""
    places = {"n1": 1, "n2": 2, "n3": 3}
    with running_nodes(
        *places, labels=lambda name: {f"of{size}": "y" for size in (1, 2, 3) if places[name] <= size}
    ) as cluster:
        yield cluster


_shared: list[RayCluster] = []


def share_cluster() -> None:
    """Have one cluster of one node for all tests of this process that ask; it ends with the process.

    A process that a test starts finds it by its environment.
    """
    if ADDRESS in os.environ:
        return
    pytest.importorskip("ray", reason="needs labrunner[ray]")
    cluster = RayCluster.make()
    _shared.append(cluster)
    atexit.register(cluster.close)
    cluster.start("one")
    os.environ[ADDRESS], os.environ[NODES_DIR] = cluster.address, str(cluster.nodes_dir)


def shared_node() -> RayProcess:
    """The node of this process's own shared cluster."""
    share_cluster()
    return _shared[0].nodes["one"]
