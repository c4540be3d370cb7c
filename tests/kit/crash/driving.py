"""Starting, killing and hearing drivers: the tests' side of `tests.kit.crash.driver`."""

import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from tests.kit.crash.driver import Job

ROOT = Path(__file__).parents[3]
PATIENCE_S = 90.0


@dataclass(slots=True, kw_only=True)
class Heard:
    """What one or more drivers said."""

    finished: dict[int, str] = field(default_factory=dict)
    """Acknowledged slots with the digest of their rows."""
    finished_trials: set[str] = field(default_factory=set)
    agents: list[tuple[str, int]] = field(default_factory=list)
    """Agents that were started: trial and attempt."""
    run_again: list[str] = field(default_factory=list)
    """Trials whose agent was started after their result had been acknowledged."""
    doubled: list[int] = field(default_factory=list)
    """Slots that were acknowledged twice."""
    told: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    """Sentences by their kind: error, lost, fault, recovered, plan."""
    points: dict[str, int] = field(default_factory=dict)
    opened: int = 0
    code: int | None = None

    @property
    def errors(self) -> list[str]:
        return self.told["error"]

    @property
    def faults(self) -> list[str]:
        return self.told["fault"]

    def hear(self, line: str) -> None:
        word, _, rest = line.partition(" ")
        match word:
            case "finished":
                self._hear_finished(*rest.split())
            case "agent":
                self._hear_agent(*rest.split())
            case "open":
                self.opened += 1
            case "error" | "lost" | "fault" | "recovered" | "plan":
                self.told[word].append(rest)
            case "points":
                self.points = msgspec.json.decode(rest)
            case "ended":
                self.code = int(rest)
            case _:
                raise AssertionError(f"a driver said {line!r}")

    def _hear_finished(self, idx: str, trial: str, digest: str) -> None:
        if int(idx) in self.finished:
            self.doubled.append(int(idx))
        self.finished[int(idx)] = digest
        self.finished_trials.add(trial)

    def _hear_agent(self, trial: str, attempt: str) -> None:
        if trial in self.finished_trials:
            self.run_again.append(trial)
        self.agents.append((trial, int(attempt)))


class Driver:
    """A server and the job that it does now. Its children are ours to kill."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self._lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self.pid = 0
        self.heard = Heard()
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    def start(self, job: Job, heard: Heard | None = None) -> int:
        """Start a job and return its process's id; what it says is added to `heard`."""
        assert self._process.stdin is not None
        self.heard = heard or Heard()
        self.heard.code = None
        self._process.stdin.write(msgspec.json.encode(job) + b"\n")
        self._process.stdin.flush()
        # The child may speak before its parent tells its number.
        early: list[str] = []
        while not (line := self._next()).startswith("pid "):
            early.append(line)
        self.pid = int(line.split()[1])
        for each in early:
            self.heard.hear(each)
        return self.pid

    def run(self, job: Job, heard: Heard | None = None) -> Heard:
        """Do a job to its end."""
        self.start(job, heard)
        return self.wait()

    def wait(self) -> Heard:
        """Hear everything until the job has ended."""
        while self.heard.code is None:
            self.heard.hear(self._next())
        return self.heard

    def wait_open(self) -> None:
        """Wait until the job owns the run."""
        opened = self.heard.opened
        while self.heard.opened == opened and self.heard.code is None:
            self.heard.hear(self._next())

    def wait_finished(self, count: int) -> None:
        """Wait until so many slots have been acknowledged."""
        while len(self.heard.finished) < count and self.heard.code is None:
            self.heard.hear(self._next())

    def kill_after(self, seconds: float) -> Heard:
        """Let the job run for a moment, then kill it in whatever it does."""
        self.hear_for(seconds)
        return self.kill()

    def kill(self) -> Heard:
        if self.heard.code is None:
            self.send(signal.SIGKILL)
        return self.wait()

    def send(self, number: signal.Signals) -> None:
        """Signal the job's process. It is not reaped before we have heard of its end."""
        try:
            os.kill(self.pid, number)
        except ProcessLookupError:
            return

    def close(self) -> None:
        """End the job, if one is left, and then the server, which ends when nobody can give it jobs."""
        if self.heard.code is None and self.pid:
            self.send(signal.SIGKILL)
        with self._process:
            assert self._process.stdin is not None
            self._process.stdin.close()
            self._process.wait(PATIENCE_S)
            self._listener.join()

    def hear_for(self, seconds: float) -> None:
        """Let the job run for a moment."""
        deadline = time.monotonic() + seconds
        while self.heard.code is None and (left := deadline - time.monotonic()) > 0:
            try:
                line = self._lines.get(timeout=left)
            except queue.Empty:
                return
            assert line is not None, "the driver's server died"
            self.heard.hear(line)

    def _next(self) -> str:
        line = self._lines.get(timeout=PATIENCE_S)
        assert line is not None, "the driver's server died"
        return line

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.put(line.decode().rstrip("\n"))
        self._lines.put(None)


@contextmanager
def open_driver(*prefix: str) -> Iterator[Driver]:
    """A server of our own, started by `prefix`; gone with all its children when the context is left."""
    process = subprocess.Popen(
        [*prefix, sys.executable, "-m", "tests.kit.crash.driver"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": f"{ROOT}/src:{ROOT}", "OPENBLAS_NUM_THREADS": "1"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    driver = Driver(process)
    try:
        yield driver
    finally:
        driver.close()
