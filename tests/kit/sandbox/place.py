"""One attempt's folders and sandbox, for tests behind the door."""

import fcntl
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from labrunner.experiment.resolved import Network, SandboxPlan
from labrunner.sandbox.door import (
    AttemptFolders,
    GuestPaths,
    Phase,
    PhaseEnd,
    Sandbox,
    SandboxMaker,
    SandboxSpec,
)
from tests.kit.builders import make_sandbox

PATH = "/usr/local/bin:/usr/bin:/bin"
TREE = Path(__file__).with_name("tree.py")


def phase(*argv: str, **changes: Any) -> Phase:
    settings: dict[str, Any] = {
        "name": "agent",
        "argv": argv,
        "env": {"PATH": PATH},
        "timeout_s": 60.0,
        "network": Network(mode="none"),
    }
    return Phase(**{**settings, **changes})


def sh(script: str, **changes: Any) -> Phase:
    return phase("/bin/sh", "-c", script, **changes)


@dataclass(frozen=True, kw_only=True)
class Place:
    maker: SandboxMaker
    folders: AttemptFolders
    agent_dir: Path | None = None

    @property
    def paths(self) -> GuestPaths:
        return self.maker.guest_paths(self.folders, self.agent_dir)

    @property
    def lock(self) -> Path:
        return self.folders.workspace / "lock"

    @asynccontextmanager
    async def open(self, **limits: Any) -> AsyncIterator[Sandbox]:
        spec = SandboxSpec(folders=self.folders, plan=plan(**limits), agent_dir=self.agent_dir)
        async with self.maker.open(spec) as sandbox:
            yield sandbox

    async def run(self, agent: Phase, **limits: Any) -> PhaseEnd:
        async with self.open(**limits) as sandbox:
            end = (await sandbox.run_agent(None, agent)).agent
        assert end is not None
        return end

    def stdout(self, name: str = "agent") -> str:
        return (self.folders.logs / f"{name}.stdout").read_text()

    def stderr(self, name: str = "agent") -> str:
        return (self.folders.logs / f"{name}.stderr").read_text()

    def tree(self, then: str, **changes: Any) -> Phase:
        """A phase that starts hard-to-end processes, all of which hold `lock`, and then exits or stays."""
        (self.folders.workspace / "tree.py").write_bytes(TREE.read_bytes())
        return phase(self.paths.python, "tree.py", then, **changes)

    def processes_hold_the_lock(self) -> bool:
        return is_locked(self.lock)


def is_locked(path: Path) -> bool:
    """Whether a process holds a lock on a file."""
    fd = os.open(path, os.O_RDWR)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(fd)
    return False


def plan(**limits: Any) -> SandboxPlan:
    return make_sandbox(**{"disk_mb": 1024, **limits})


def make_place(maker: SandboxMaker, root: Path, agent_dir: Path | None = None) -> Place:
    folders = AttemptFolders(root=root)
    root.mkdir(exist_ok=True)
    for folder in folders.all():
        folder.mkdir()
    return Place(maker=maker, folders=folders, agent_dir=agent_dir)
