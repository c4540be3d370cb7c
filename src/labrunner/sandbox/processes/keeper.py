"""A keeper: carries out one phase after another, and is alone again after each.

Standard library only, see `labrunner.sandbox.processes.warden`, which says what holds.
"""

import contextlib
import json
import os
import resource
import select
import signal
import socket
import time

from labrunner.files.strangers.usage import TooMany, count
from labrunner.sandbox.processes.child import (
    ChildLimits,
    Groups,
    Request,
    Victims,
    close_all,
    lift,
    open_streams,
    spawn,
)
from labrunner.sandbox.processes.kernel import (
    LINUX,
    PR_SET_CHILD_SUBREAPER,
    Wakeups,
    children,
    kill,
    set_process_option,
    take_fresh_keyring,
)

END_WITHIN_S = 5.0
MAX_FDS = 64
MOST_ENTRIES = 10_000
CAN_PEEK = hasattr(os, "waitid")


def count_disk(folders: list[str], most: int = MOST_ENTRIES) -> tuple[int, int] | None:
    """What these folders hold now, bytes and files; None when there is too much to look at."""
    try:
        return count(folders, most)
    except TooMany:
        return None


class Keeper:
    """Carries out phases, one at a time."""

    def __init__(self, control: int, warden: int) -> None:
        """Take the control socket; become the parent of every orphan below."""
        os.set_inheritable(control, False)
        self.control = socket.socket(fileno=control)
        self.wakeups = Wakeups(warden)
        self.groups = Groups()
        self.limits = ChildLimits()
        self.victims = Victims()
        self.poll = select.poll()
        self.poll.register(self.wakeups.fd, select.POLLIN)
        self.watch_poll = select.poll()
        self.watch_poll.register(self.wakeups.fd, select.POLLIN)
        self.watch_poll.register(control, select.POLLIN)
        set_process_option(PR_SET_CHILD_SUBREAPER, 1)
        os.umask(0o022)

    def serve(self) -> None:
        """Carry out requests until the runner or the warden is gone, or something could not be ended."""
        while True:
            ready = dict(self.watch_poll.poll())
            if self.wakeups.fd in ready and self.wakeups.drain():
                return
            if self.control.fileno() not in ready:
                continue
            kind, fds, _, _ = socket.recv_fds(self.control, 1, MAX_FDS)
            if not kind:
                return
            if kind == b"r" and not self._carry_out(self._read_request(), lift(fds)):
                return

    def _read_request(self) -> Request:
        length = int.from_bytes(self._read_exactly(4), "big")
        request: Request = json.loads(self._read_exactly(length))
        return request

    def _read_exactly(self, length: int) -> bytes:
        data = b""
        while len(data) < length:
            chunk = self.control.recv(length - len(data))
            if not chunk:
                raise ConnectionResetError
            data += chunk
        return data

    def _carry_out(self, request: Request, fds: list[int]) -> bool:
        """Start, watch, end, report; False when this keeper is of no more use."""
        self.command = 0
        self.status: int | None = None
        self.cpu_s = self.max_rss = 0.0
        started = time.monotonic()
        trouble, errno = self._start(request, fds)
        close_all(fds)
        told, alone = self._watch() if self.command else (False, False)
        ended = time.monotonic()
        left = self._end_tree()
        self._step_back()
        if alone:
            return False
        report = {
            "status": self.status,
            "told": told,
            "left": left,
            "trouble": trouble,
            "errno": errno,
            "seconds": ended - started,
            "barrier_s": time.monotonic() - ended,
            "cpu_s": self.cpu_s,
            "max_rss_mb": self.max_rss / (1024 if LINUX else 1024 * 1024),
            "disk": count_disk(request["measured"]),
        }
        self.control.sendall(json.dumps(report).encode())
        return left == 0

    def _start(self, request: Request, fds: list[int]) -> tuple[str, int]:
        """Start the command; return in what our side of it went wrong, and the number of the error."""
        doing = "joining its control groups"
        try:
            self.groups.enter(request)
            doing = "making its folders"
            for folder in request["folders"]:
                os.mkdir(folder, 0o700)  # noqa: PTH102 - pathlib is not loaded here
            doing = "opening its streams"
            fds[:0] = open_streams(request["streams"])
            doing = "setting its limits"
            self.limits.lend(request["rlimits"])
            doing = "entering its working directory"
            os.chdir(request["cwd"])
            take_fresh_keyring()
        except OSError as error:
            return doing, error.errno or 0
        try:
            with self.victims:
                self.command = spawn(request, fds)
        except OSError as error:
            os.write(fds[2], f"cannot start {request['argv'][0]!r}: {error.strerror}\n".encode())
            self.status = 127 if isinstance(error, FileNotFoundError | NotADirectoryError) else 126
        return "", 0

    def _step_back(self) -> None:
        """Be as before the phase."""
        os.chdir("/")
        self.limits.take_back()

    def _watch(self) -> tuple[bool, bool]:
        """Wait for the command's end, or for the word to end it: (told to end, nobody listens any more)."""
        while True:
            ready = dict(self.watch_poll.poll())
            orphaned = self.wakeups.fd in ready and self.wakeups.drain()
            if self._has_ended():
                return False, orphaned
            if self.control.fileno() in ready:
                return True, not self._heard()
            if orphaned:
                return True, True

    def _heard(self) -> bool:
        try:
            return self.control.recv(1) != b""
        except ConnectionError:
            return False

    def _has_ended(self) -> bool:
        """Reap orphans, but only look at the command: while it is not reaped, its group's id is ours."""
        if not CAN_PEEK:
            self._reap()
            return self.status is not None
        while True:
            found = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            if found is None:
                return False
            if found.si_pid == self.command:
                return True
            self._account(*os.wait4(found.si_pid, 0))

    def _end_tree(self) -> int:
        """Kill and reap until no child is left; the number of those that would not go in time."""
        deadline = time.monotonic() + END_WITHIN_S
        while True:
            if self.command and (self.status is None or not CAN_PEEK):
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(self.command, signal.SIGKILL)
            for pid in children():
                kill(pid)
            if self._reap():
                return 0
            if time.monotonic() > deadline:
                return max(1, len(children()))
            self.poll.poll(20)
            self.wakeups.drain()

    def _reap(self) -> bool:
        """Reap whoever has ended; tell whether that was the last child."""
        while True:
            try:
                pid, status, usage = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                return True
            if pid == 0:
                return False
            self._account(pid, status, usage)

    def _account(self, pid: int, status: int, usage: resource.struct_rusage) -> None:
        self.cpu_s += usage.ru_utime + usage.ru_stime
        self.max_rss = max(self.max_rss, usage.ru_maxrss)
        if pid == self.command:
            code = os.waitstatus_to_exitcode(status)
            self.status = code if code >= 0 else 128 - code
