"""`sandbox()`: the trial's one sandbox, as solvers, tools and scorers use it.

Calls are carried out in the home loop, by whichever sandbox the trial has. Files are read and written
through the sandbox too: nothing that lies in it is opened from outside.
"""

import asyncio
import posixpath
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeVar, overload

from labrunner.errors import SandboxFailed
from labrunner.files.uninterrupted import wait_out
from labrunner.records.facts.exit_status import KILLED
from labrunner.sandbox.door import AgentRun
from labrunner.sandbox.execution import MAX_OUTPUT, ExecCall, ExecEnd, ExecSandbox
from labrunner.solve.models.surroundings import Running, running
from labrunner.solve.values.meter import LimitExceeded

T = TypeVar("T")
MAX_FILE: Final = 100 * 1024 * 1024
SHOWN: Final = 8 * 1024
"""Characters of a command's output that the transcript keeps beside what tools say of it."""
_READ: Final = '[ -d "$1" ] && exit 101; [ -e "$1" ] || exit 102; [ -r "$1" ] || exit 103; exec cat -- "$1"'
_WRITE: Final = (
    '[ -d "$1" ] && exit 101; case "$1" in */*) mkdir -p -- "${1%/*}/" || exit 103;; esac; '
    'cat > "$1" || exit 103'
)


@dataclass(frozen=True, slots=True)
class ExecResult:
    """How a command ended, as solvers see it."""

    success: bool
    returncode: int
    stdout: str
    stderr: str


class SandboxEnvironment:
    """The trial's sandbox."""

    def __init__(self, place: ExecSandbox, attempt: Running) -> None:
        """Take an open sandbox."""
        self._place = place
        self._attempt = attempt
        self._calls: set[asyncio.Task[Any]] = set()
        self._is_closed = False

    async def exec(
        self,
        cmd: Sequence[str],
        input: str | bytes | None = None,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        user: str | None = None,
        timeout: float | None = None,  # noqa: ASYNC109 - a name that people bring with them
    ) -> ExecResult:
        """Run a command in the workspace. Raises TimeoutError; nothing of it is left then."""
        end = await self._run(
            ExecCall(
                argv=tuple(cmd),
                stdin=input.encode() if isinstance(input, str) else input,
                cwd=cwd,
                env=env or {},
                user=user,
                timeout_s=timeout,
            )
        )
        self._note(cmd, end)
        if end.over_disk:
            raise LimitExceeded("disk", "the sandbox's disk is full")
        if end.timed_out:
            said = self._attempt.transcript.shorten(_decode(end.stdout) + _decode(end.stderr), SHOWN)
            raise TimeoutError(
                f"the command ran into its time limit of {timeout:g} s" + f"\n{said}" * bool(said)
            )
        status = end.exit_status if end.exit_status is not None else KILLED
        return ExecResult(status == 0, status, _decode(end.stdout), _decode(end.stderr))

    @overload
    async def read_file(self, file: str, text: Literal[True] = True) -> str: ...
    @overload
    async def read_file(self, file: str, text: Literal[False]) -> bytes: ...
    async def read_file(self, file: str, text: bool = True) -> str | bytes:
        """Read a file. Raises FileNotFoundError, IsADirectoryError, PermissionError, UnicodeDecodeError."""
        call = ExecCall(argv=("/bin/sh", "-c", _READ, "sh", file), max_output=MAX_FILE)
        end = await self._run(call)
        self._attempt.transcript.add("sandbox", action="read_file", file=file, size=len(end.stdout))
        _refuse(end, file)
        if end.is_cut:
            raise OSError(f"{file} is larger than {MAX_FILE} bytes")
        return end.stdout.decode() if text else end.stdout

    async def write_file(self, file: str, contents: str | bytes) -> None:
        """Write a file, and the folders on the way to it. Raises IsADirectoryError, PermissionError."""
        data = contents.encode() if isinstance(contents, str) else contents
        target = posixpath.normpath(file)
        call = ExecCall(argv=("/bin/sh", "-c", _WRITE, "sh", target), stdin=data)
        end = await self._run(call)
        self._attempt.transcript.add("sandbox", action="write_file", file=file, size=len(data))
        _refuse(end, file)

    async def end_all(self) -> AgentRun:
        """The barrier: end whatever solvers and their tools left running. Called in the home loop."""
        await self._end_calls()
        return await self._place.end_all()

    async def leave(self) -> None:
        """Refuse calls from now on, and see those under way end: code that outlived its attempt has none.

        Who was cancelled, or gave its caller up, has not waited for its call: it is waited for here.
        """
        self._is_closed = True
        await self._end_calls()

    async def _end_calls(self) -> None:
        calls = list(self._calls)
        for call in calls:
            call.cancel()
        cancelled = [await wait_out(call) for call in calls]
        for told in filter(None, cancelled):
            raise told

    async def _run(self, call: ExecCall) -> ExecEnd:
        return await self._attempt.call_home(lambda: self._tracked(self._place.exec(call)))

    async def _tracked(self, work: Coroutine[Any, Any, T]) -> T:
        """Carry a call out so that the barrier can end it."""
        if self._is_closed:
            work.close()
            raise SandboxFailed("closed", "the attempt that this sandbox belongs to has ended")
        task = asyncio.current_task()
        assert task is not None
        self._calls.add(task)
        try:
            return await work
        finally:
            self._calls.discard(task)

    def _note(self, cmd: Sequence[str], end: ExecEnd) -> None:
        transcript = self._attempt.transcript
        transcript.add(
            "sandbox",
            action="exec",
            command=[transcript.shorten(word, SHOWN) for word in cmd],
            exit_status=end.exit_status,
            timed_out=end.timed_out,
            seconds=round(end.seconds, 6),
            stdout=transcript.shorten(_decode(end.stdout), SHOWN),
            stderr=transcript.shorten(_decode(end.stderr), SHOWN),
        )


def sandbox(name: str | None = None) -> SandboxEnvironment:
    """The sandbox of the trial that this code belongs to."""
    attempt = running()
    if name not in {None, "default"}:
        raise ValueError(f"a trial has one sandbox; there is none called {name!r}")
    if attempt.environment is None:
        raise RuntimeError(
            "this task has no sandbox; give it one: Task(..., sandbox='bubblewrap') or sandbox='docker'"
        )
    assert isinstance(attempt.environment, SandboxEnvironment)  # there is no other kind
    return attempt.environment


def _refuse(end: ExecEnd, file: str) -> None:
    said = _decode(end.stderr).strip()
    match end.exit_status:
        case 0:
            return
        case 101:
            raise IsADirectoryError(f"{file} is a folder")
        case 102:
            raise FileNotFoundError(f"there is no file {file} in the sandbox")
        case 103:
            raise PermissionError(
                f"{file} can't be read or written in the sandbox: {said}".removesuffix(": ")
            )
        case _:
            raise OSError(f"using {file} in the sandbox: {said or 'it failed'}")


def _decode(data: bytes) -> str:
    return data.decode(errors="replace")


__all__ = ["MAX_OUTPUT", "ExecResult", "SandboxEnvironment", "sandbox"]
