"""A Docker engine of the test's own, which it may kill and start again."""

import asyncio
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from labrunner.sandbox.docker.engine.client import Engine
from tests.kit.docker.lifesign import answers


class Daemon:
    """A private engine, in a network namespace of its own; its containers survive its death."""

    def __init__(self, *, live_restore: bool) -> None:
        self.place = Path(tempfile.mkdtemp(prefix="lab-daemon-", dir="/var/tmp"))
        self._live_restore = live_restore
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"unix://{self.place}/sock"

    async def start(self) -> None:
        # What a killed engine leaves of its containerd would keep the next one from starting.
        for stale in ("containerd/containerd.pid", "pid"):
            (self.place / "exec" / stale).unlink(missing_ok=True)
            (self.place / stale).unlink(missing_ok=True)
        argv = ["unshare", "-n", "-m", "dockerd", "--data-root", f"{self.place}/data"]
        argv += ["--exec-root", f"{self.place}/exec", "--pidfile", f"{self.place}/pid", "-H", self.url]
        argv += ["--live-restore"] if self._live_restore else []
        log = (self.place / "log").open("ab")
        self._process = subprocess.Popen(argv, stdout=log, stderr=log, start_new_session=True)
        log.close()
        engine = Engine(self.url)
        try:
            async with asyncio.timeout(60):
                while not await answers(engine):
                    assert self._process.poll() is None, (self.place / "log").read_text()[-3000:]
                    await asyncio.sleep(0.1)
        finally:
            await engine.close()

    def kill(self, number: signal.Signals = signal.SIGKILL) -> None:
        assert self._process is not None
        self._process.send_signal(number)
        self._process.wait()
        if number == signal.SIGKILL:
            self._end_containerd()

    def pause(self) -> None:
        """Let it live, and answer nothing."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        """Let it answer again."""
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    def _end_containerd(self) -> None:
        """The engine's own containerd outlives it for a moment, and would hold its socket."""
        pid_file = self.place / "exec" / "containerd" / "containerd.pid"
        if pid_file.exists():
            pid = int(pid_file.read_text())
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                return

    async def destroy(self) -> None:
        if self._process is not None and self._process.poll() is not None:
            await self.start()
        engine = Engine(self.url)
        for container in await engine.list("labrunner.nonce"):
            await engine.remove(container.id)
        await engine.close()
        self.kill(signal.SIGTERM)
        self._end_shims()
        for _ in range(50):
            shutil.rmtree(self.place, ignore_errors=True)
            if not self.place.exists():
                return
            await asyncio.sleep(0.1)

    def _end_shims(self) -> None:
        """Containers that were being made when the engine was killed are known to no engine any more."""
        for pid in _find(f"{self.place}/exec/".encode()):
            with suppress(OSError):
                below = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
                for each in (*below, pid):
                    os.kill(int(each), signal.SIGKILL)


def _find(words: bytes) -> Iterator[str]:
    """Processes whose command line holds these words."""
    for entry in Path("/proc").iterdir():
        with suppress(OSError):
            if entry.name.isdigit() and words in (entry / "cmdline").read_bytes():
                yield entry.name
