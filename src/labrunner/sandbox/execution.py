"""Calls into an attempt's sandbox while a solver outside of it works: what every such sandbox promises.

`begin` runs the setup and opens the sandbox for calls. A call's time limit ends its whole process tree before
the call returns. What calls leave running may live until `end_all`, which is the barrier: after it nothing of
them is left. Calls after the barrier are the scorers'. HOME and TMPDIR are the same in all calls.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Protocol, runtime_checkable

from labrunner.sandbox.door import AgentRun, Phase, PhaseEnd, Sandbox

MAX_OUTPUT: Final = 10 * 1024 * 1024
"""Bytes of each of a call's output streams that are handed back, by default."""
LONGEST_S: Final = 7 * 24 * 3600.0
"""The time limit of a call without one."""
_IN_FOLDER: Final = 'cd -- "$1" || exit 1; shift; exec "$@"'


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecCall:
    """One command to be run in a sandbox."""

    argv: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    """On top of the agent's."""
    cwd: str | None = None
    """From the workspace; None for the workspace itself."""
    user: str | None = None
    timeout_s: float | None = None
    stdin: bytes | None = None
    """None closes standard input."""
    max_output: int = MAX_OUTPUT

    @property
    def command(self) -> tuple[str, ...]:
        """What is started: the command itself, in its folder."""
        return self.argv if self.cwd is None else ("/bin/sh", "-c", _IN_FOLDER, "sh", self.cwd, *self.argv)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecEnd:
    """How a call ended. Output that is too long has lost its middle."""

    exit_status: int | None
    """128 + n when a signal ended it; None when we did."""
    stdout: bytes = b""
    stderr: bytes = b""
    timed_out: bool = False
    over_disk: bool = False
    is_cut: bool = False
    seconds: float = 0.0


@runtime_checkable
class ExecSandbox(Sandbox, Protocol):
    """A sandbox that takes calls."""

    async def begin(self, setup: Phase | None, agent: Phase) -> PhaseEnd | None:
        """Run the setup and open the sandbox for calls; the setup's end, if there was one.

        `agent` lends its environment, network and user to the calls; its command is not run. After
        `run_agent`, without a setup, it opens the sandbox for calls behind the barrier.
        """
        ...

    async def exec(self, call: ExecCall) -> ExecEnd:
        """Carry out one call. Cancelling ends it, whole, before that is passed on."""
        ...

    async def end_all(self) -> AgentRun:
        """End whatever calls left running, and prove it."""
        ...


def read_end(end: PhaseEnd, logs: Path, stream: str, most: int) -> ExecEnd:
    """Join how a call ended with what it said."""
    out, cut_out = read_capped(logs / f"{stream}.stdout", most)
    err, cut_err = read_capped(logs / f"{stream}.stderr", most)
    return ExecEnd(
        exit_status=end.exit_status,
        stdout=out,
        stderr=err,
        timed_out=end.timed_out,
        over_disk=end.over_disk,
        is_cut=cut_out or cut_err,
        seconds=end.seconds,
    )


def read_capped(path: Path, most: int) -> tuple[bytes, bool]:
    """Read a file that we opened for a guest to write, its middle left out where it is long."""
    size = path.stat().st_size
    with path.open("rb") as file:
        if size <= most:
            return file.read(most), False
        head = file.read(most // 2)
        file.seek(size - (most - len(head)))
        return cut(head, file.read(most - len(head)), size - most), True


def cut(head: bytes, tail: bytes, left_out: int) -> bytes:
    """Join both ends of what was too long."""
    return head + f"\n[{left_out} bytes left out here]\n".encode() + tail
