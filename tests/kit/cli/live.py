"""A run that goes on exactly as far as a test lets it."""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from labrunner.records.encoding.ids import make_trial_id
from labrunner.store.layout import RunPaths
from labrunner.store.reading.underway import UnderWay, read_under_way
from tests.kit.cli.calling import LAB, environment, write_experiment

T = TypeVar("T")
TRIAL = make_trial_id("baseline", "t0", 0)
WAITS = """
import os, pathlib, sys, time
def wait(name):
    print(name, "begins", flush=True)
    while not pathlib.Path(os.environ["AGENTLAB_WORKSPACE"], f"go-{name}").exists():
        time.sleep(0.05)
"""
AGENT = f"""{WAITS}
print("\\x1b[31mred\\u202e", os.environ.get("A_KEY"), flush=True)
wait("agent")
if os.environ["AGENTLAB_ATTEMPT"] == "1" and "fail-first" in os.listdir(os.environ["AGENTLAB_WORKSPACE"]):
    sys.exit(75)
"""
GRADER = f"""{WAITS}
wait("grader")
pathlib.Path(os.environ["AGENTLAB_BENCHMARK_SCORE_PATH"]).write_text('{{"verdict": "pass"}}')
"""
SETUP = (
    "setup:\n  command: 'echo setup begins; while [ ! -e $$AGENTLAB_WORKSPACE/go-setup ]; "
    "do sleep 0.05; done'\n"
)


def write_waiting(folder: Path, *, sandbox: str, extra: str = "") -> Path:
    return write_experiment(
        folder, sandbox=sandbox, tasks=1, agent=AGENT, grader=GRADER, extra=f"{SETUP}{extra}"
    )


def await_(ask: Callable[[], T | None], what: str, timeout_s: float = 60.0) -> T:
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        if found := ask():
            return found
        time.sleep(0.02)
    raise AssertionError(f"not within {timeout_s} s: {what}")


@dataclass
class LiveRun:
    paths: RunPaths
    process: subprocess.Popen[str]

    def seen(self) -> UnderWay | None:
        return next(iter(read_under_way(self.paths)), None) if self.paths.commits.exists() else None

    def await_phase(self, phase: str, attempt: int = 1) -> UnderWay:
        """Wait until a phase has begun: it is noted a moment before, and then has no time yet."""

        def ask() -> UnderWay | None:
            seen = self.seen()
            is_there = seen and seen.since and (seen.phase, seen.attempt) == (phase, attempt)
            return seen if is_there else None

        return await_(ask, f"{phase}, now {self.seen()}")

    def go(self, phase: str, attempt: int = 1) -> None:
        (self.paths.attempt(TRIAL, attempt) / "workspace" / f"go-{phase}").write_text("")

    def end(self) -> None:
        assert self.process.wait(60) == 0


def following(folder: Path, *words: str) -> AbstractContextManager["subprocess.Popen[str]"]:
    return listening(folder, "show", *words, "--follow")


@contextmanager
def listening(folder: Path, *words: str, **env: str) -> Iterator["subprocess.Popen[str]"]:
    """A `lab` that goes on, and whose words are read while it does; killed at the end."""
    process = subprocess.Popen(
        [LAB, *words],
        cwd=folder,
        env=environment(**env),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


def read_line(process: "subprocess.Popen[str]") -> str:
    assert process.stdout is not None
    return process.stdout.readline()


@contextmanager
def running(folder: Path, *words: str, **env: str) -> Iterator[LiveRun]:
    process = subprocess.Popen(
        [LAB, "run", "--run-id", "r", *words],
        cwd=folder,
        env=environment(**env),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield LiveRun(RunPaths(folder / ".lab" / "runs" / "r"), process)
    finally:
        if process.poll() is None:
            os.kill(process.pid, signal.SIGKILL)
        process.communicate()
