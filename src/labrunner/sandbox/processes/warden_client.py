"""Starting commands through the warden: the runner's side of `warden.py`.

One warden per process, started when it is first needed and gone with the process. A `Tree` is a command with
everything it starts; its `LaunchReport` comes when nothing of it is left. A keeper that has reported waits
for the next command with the same limits: its control group is its own. Nothing here waits in a thread.
"""

import asyncio
import atexit
import os
import socket
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import msgspec

from labrunner.errors import SandboxFailed
from labrunner.files.detached import spawn_detached
from labrunner.files.uninterrupted import wait_out
from labrunner.sandbox.processes.cgroup import Group, GroupLimits, control_groups

MOST_IDLE = 128
"""Keepers with the same limits that may wait for work."""
START_WARDEN = (
    "import sys; sys.path.append(sys.argv[1]); from labrunner.sandbox.processes.warden import main; main()"
)
PACKAGES = Path(__file__).parents[3]
ENDS_WITHIN_S = 15.0
"""How long a tree that was told to end may take before we stop believing in it."""
GONE_WITHIN_S = 1.0
"""How long this process waits at its own end for its warden: usually a few milliseconds are enough."""


class LaunchRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What a keeper must know to start a command."""

    argv: Sequence[str]
    env: Mapping[str, str]
    cwd: str
    streams: tuple[str, str, str]
    """Files: standard input, and where standard output and error are appended."""
    folders: Sequence[str] = ()
    """Made first, private; none of them may exist."""
    measured: Sequence[str] = ()
    """Folders whose size on disk the report tells."""
    rlimits: Mapping[str, int] = {}
    """Names as in the `resource` module."""


class LaunchReport(msgspec.Struct, frozen=True, kw_only=True):
    """How a tree ended."""

    status: int | None
    told: bool
    """It was still running when it was told to end."""
    left: int
    """Processes that would not go: the barrier does not hold."""
    trouble: str
    """What was being done when something went wrong before the command; empty otherwise."""
    errno: int
    """The number of that error."""
    seconds: float
    barrier_s: float
    cpu_s: float
    max_rss_mb: float
    disk: tuple[int, int] | None
    """How many bytes and files `measured` held at the end; None when there was too much to count."""


_decode_report = msgspec.json.Decoder(LaunchReport).decode
_encode = msgspec.json.Encoder().encode


@dataclass(slots=True, kw_only=True)
class Seat:
    """A keeper, as the runner holds it."""

    control: socket.socket
    limits: GroupLimits | None
    group: Group | None
    oom_kills: int = 0

    def count_oom_kills(self) -> int:
        """Count the kills for want of memory since the last count."""
        if self.group is None:
            return 0
        before, self.oom_kills = self.oom_kills, self.group.oom_kills()
        return self.oom_kills - before

    def close(self) -> None:
        """Let the keeper go: it ends its tree and removes its group."""
        self.control.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class Tree:
    """A command and whatever it starts."""

    seat: Seat
    give_back: Callable[[Seat], None]
    mourn: Callable[[], None]
    """Called when the keeper is lost."""

    def end(self) -> None:
        """Ask for its end; `wait` returns once everything is gone."""
        with suppress(OSError):  # already ended: the report says how
            self.seat.control.send(b"e")

    async def wait(self) -> tuple[LaunchReport, int]:
        """Wait until nothing of it is left; its report, and how often memory ran out.

        When cancelled, it is ended first, whole, and then that is passed on.
        """
        try:
            return await self._receive()
        except asyncio.CancelledError:
            self.end()
            await self._drain()
            raise

    async def _receive(self) -> tuple[LaunchReport, int]:
        try:
            data = await asyncio.get_running_loop().sock_recv(self.seat.control, 1 << 16)
        except ConnectionError:
            data = b""
        if not data:
            self.seat.close()
            self.mourn()
            raise SandboxFailed(
                "keeper_lost", "the process that watched over a phase was killed from outside"
            )
        report = _decode_report(data)
        oom_kills = self.seat.count_oom_kills()
        if report.left or report.trouble:
            self.seat.close()
        else:
            self.give_back(self.seat)
        return report, oom_kills

    async def _drain(self) -> None:
        """Wait for its report; told twice to leave, the tree's end still comes first."""
        report = asyncio.ensure_future(self._receive())
        await wait_out(report, until=time.monotonic() + ENDS_WITHIN_S)
        if not report.done():
            report.cancel()
            await wait_out(report)
        if report.cancelled() or isinstance(report.exception(), SandboxFailed):
            self.seat.close()
        else:
            report.result()


class WardenClient:
    """This process's warden, and the keepers that wait for work."""

    def __init__(self) -> None:
        """Start nothing yet."""
        self._link: socket.socket | None = None
        self._owner = 0
        self._pid = 0
        self._idle: dict[GroupLimits | None, list[Seat]] = {}

    async def launch(
        self, request: LaunchRequest, fds: Sequence[int], limits: GroupLimits | None = None
    ) -> Tree:
        """Start a command with `fds` as its 3, 4, 5, …; the caller may close them at once."""
        seat, unsent = self._hand_over(request, fds, limits)
        try:
            if unsent:
                await asyncio.get_running_loop().sock_sendall(seat.control, unsent)
        except OSError as error:
            seat.close()
            raise SandboxFailed("launch", f"starting {request.argv[0]!r}: {error}") from error
        except BaseException:
            seat.close()
            raise
        return Tree(seat=seat, give_back=self._take_back, mourn=self._look_after)

    def close(self) -> None:
        """Let go of warden and keepers: they end everything of ours, and go."""
        for seats in self._idle.values():
            for seat in seats:
                seat.close()
        self._idle.clear()
        if self._link is not None:
            self._link.close()
            self._link = None

    def _close_at_exit(self) -> None:
        """Let go, and be the last of our processes: who has seen us end finds none of them."""
        self.close()
        deadline = time.monotonic() + GONE_WITHIN_S
        while self._owner == os.getpid() and not self._is_gone() and time.monotonic() < deadline:
            time.sleep(0.001)  # noqa: TID251 - at exit no loop runs

    def _look_after(self) -> None:
        """See whether the warden has gone: then its idle keepers go too, though they still take requests."""
        if self._is_gone():
            self.close()

    def _is_gone(self) -> bool:
        try:
            return os.waitpid(self._pid, os.WNOHANG)[0] == self._pid
        except ChildProcessError:
            return True  # somebody else has reaped it

    def _take_back(self, seat: Seat) -> None:
        seats = self._idle.setdefault(seat.limits, [])
        if len(seats) < MOST_IDLE and self._link is not None:
            seats.append(seat)
        else:
            seat.close()

    def _hand_over(
        self, request: LaunchRequest, fds: Sequence[int], limits: GroupLimits | None
    ) -> tuple[Seat, bytes]:
        """Give a request and its descriptors to a keeper that lives; return what did not go through yet."""
        if self._owner != os.getpid():
            self.close()  # a fork of this process must not share its parent's keepers
        fresh_ones = 0
        while True:
            idle = self._idle.get(limits)
            fresh_ones += not idle
            seat = idle.pop() if idle else self._new_seat(limits)
            message = encode_request(request, seat.group)
            try:
                sent = socket.send_fds(seat.control, [message], fds)
            except OSError as error:
                seat.close()
                if fresh_ones:
                    self.close()  # its warden may have been killed: the next try gets another one
                if fresh_ones > 1:
                    raise SandboxFailed("launch", f"reaching a keeper process: {error}") from error
            else:
                return seat, message[sent:]

    def _new_seat(self, limits: GroupLimits | None) -> Seat:
        ours, theirs = socket.socketpair()
        with theirs:
            if not self._ask_for_keeper(theirs) and not self._ask_for_keeper(theirs):
                ours.close()
                raise SandboxFailed("launch", "the warden process can't be started; is this Python whole?")
        ours.setblocking(False)
        return Seat(control=ours, limits=limits, group=make_group(limits))

    def _ask_for_keeper(self, theirs: socket.socket) -> bool:
        if self._link is None:
            self._start()
        assert self._link is not None
        try:
            socket.send_fds(self._link, [b"k"], [theirs.fileno()])
        except OSError:
            self.close()
            return False
        return True

    def _start(self) -> None:
        self._link, theirs = socket.socketpair()
        with theirs:
            self._pid = spawn_warden(theirs.fileno())
        self._owner = os.getpid()
        atexit.register(self._close_at_exit)


def encode_request(request: LaunchRequest, group: Group | None) -> bytes:
    """Put a request on the wire."""
    groups = () if group is None else group.folders
    way_back = () if group is None else group.way_back
    body = _encode({**msgspec.structs.asdict(request), "groups": groups, "way_back": way_back})
    return b"r" + len(body).to_bytes(4, "big") + body


def make_group(limits: GroupLimits | None) -> Group | None:
    """Make a keeper's control group."""
    groups = control_groups()
    if limits is None or groups is None:
        return None
    try:
        return groups.make(limits)
    except OSError as error:
        raise SandboxFailed("control_group", f"making a control group: {error}") from error


def spawn_warden(link: int) -> int:
    """Start the warden with `link` as its standard input and none of this process's other descriptors."""
    argv = [sys.executable, "-I", "-S", "-X", "utf8", "-c", START_WARDEN, str(PACKAGES)]
    link_up = [(os.POSIX_SPAWN_DUP2, link, 0), (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)]
    return spawn_detached(argv, {}, link_up)


warden = WardenClient()
