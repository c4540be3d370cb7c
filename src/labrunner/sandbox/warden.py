"""Starts the commands of attempts, and ends whatever they started, even when the runner is gone.

A program of its own: `python -I -S warden.py`, one per runner, standard library only. Four generations:
runner, warden, keepers (forks of the warden, each carrying out one phase after another), commands. Rules:

- A keeper is a child subreaper: whatever is orphaned below it, however often it forked and called
  setsid, becomes its child. It says that a phase ended only when it has no child left.
- Only own children that are not yet reaped are signalled, or the group of such a one: no pid of those
  can belong to anybody else.
- A keeper whose runner or warden has gone ends its tree and goes. A keeper that was killed leaves its
  children to the warden, which ends them.
- Where there are no subreapers (macOS) the command's process group is ended, and no more is promised.

On the wire: one byte with a socket over the warden's standard input makes a keeper, which serves that
socket. There `r`, a length and a JSON request, with what the command gets as descriptors 0, 1, 2, …, starts
a phase; `e` ends it now (and means nothing between phases: it may have crossed the report, which is the
keeper's one answer per request).
"""

import contextlib
import ctypes
import fcntl
import json
import os
import resource
import select
import signal
import socket
import sys
import time
from collections.abc import Iterator
from typing import Any, NoReturn

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
FIRST_SPARE_FD = 128  # above any number that a command is given
END_WITHIN_S = 5.0
MAX_FDS = 64
EASY_OOM_VICTIM = 500
LINUX = sys.platform == "linux"
CAN_PEEK = hasattr(os, "waitid")
LIBC = ctypes.CDLL(None)

Request = dict[str, Any]  # JSON of our own making: argv, env, cwd, rlimits, groups, way_back


def set_process_option(option: int, value: int) -> None:
    """Call prctl, where there is one."""
    if LINUX:
        LIBC.prctl(option, value, 0, 0, 0)


def write_text(path: str, text: str) -> None:
    """Write a kernel's file in one go."""
    fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(fd, text.encode())
    finally:
        os.close(fd)


class Wakeups:
    """A pipe that becomes readable whenever SIGCHLD or SIGTERM arrives.

    SIGTERM comes when the thread of the parent that started us has gone, so it proves nothing alone.
    """

    def __init__(self, parent: int) -> None:
        """Catch both signals in this process, which `parent` started."""
        self._parent = parent
        self.fd, writer = os.pipe()
        os.set_blocking(self.fd, False)
        os.set_blocking(writer, False)
        signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        for number in (signal.SIGCHLD, signal.SIGTERM):
            signal.signal(number, lambda *_: None)
        set_process_option(PR_SET_PDEATHSIG, signal.SIGTERM)

    def drain(self) -> bool:
        """Forget what arrived; tell whether the parent has gone."""
        with contextlib.suppress(BlockingIOError):
            os.read(self.fd, 4096)
        return os.getppid() != self._parent


def children() -> list[int]:
    """List direct children, dead ones that are not yet reaped included."""
    if not LINUX:
        return []
    try:
        fd = os.open(f"/proc/self/task/{os.getpid()}/children", os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:  # a kernel without CONFIG_PROC_CHILDREN
        return [pid for pid, parent in parents() if parent == os.getpid()]
    with open(fd, "rb") as file:  # noqa: PTH123 - pathlib is not loaded here
        return [int(pid) for pid in file.read().split()]


def parents() -> Iterator[tuple[int, int]]:
    """Every process with its parent, as /proc has it."""
    for name in os.listdir("/proc"):  # noqa: PTH208 - pathlib is not loaded here
        if name.isdigit():
            with contextlib.suppress(OSError), open(f"/proc/{name}/stat", "rb") as file:  # noqa: PTH123
                yield int(name), int(file.read().rpartition(b")")[2].split()[1])


def kill(pid: int) -> None:
    """Kill a child that only this process can reap."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, signal.SIGKILL)


# --- starting a command -------------------------------------------------------------------------------


def find_command(name: str, env: dict[str, str]) -> str:
    """Find a command as a shell would, on the PATH that it is given."""
    if "/" in name:
        return name
    for folder in env.get("PATH", "/usr/local/bin:/usr/bin:/bin").split(":"):
        path = f"{folder or '.'}/{name}"
        if os.access(path, os.X_OK) and not os.path.isdir(path):  # noqa: PTH112 - as above
            return path
    raise FileNotFoundError(2, "command not found")


def spawn(request: Request, fds: list[int]) -> int:
    """Start the command with exactly `fds`; it inherits limits, groups and directory from us."""
    actions: list[Any] = [(os.POSIX_SPAWN_DUP2, fd, number) for number, fd in enumerate(fds)]
    usual = (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM)
    return os.posix_spawn(
        find_command(request["argv"][0], request["env"]),
        request["argv"],
        request["env"],
        file_actions=actions,
        setsid=True,
        setsigmask=(),
        setsigdef=usual,  # Python ignores the first two, nohup the third: that would be inherited
    )


def lift(fds: list[int]) -> list[int]:
    """Move descriptors out of the range that a command's own will take."""
    lifted = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, FIRST_SPARE_FD) for fd in fds]
    close_all(fds)
    return lifted


def close_all(fds: list[int]) -> None:
    """Close descriptors."""
    for fd in fds:
        os.close(fd)


class Groups:
    """The control groups that this process is in, for as long as it lives: its children are born there."""

    def __init__(self) -> None:
        """Be where we were born."""
        self._groups: list[str] = []
        self._way_back: list[str] = []

    def enter(self, request: Request) -> None:
        """Enter the groups of a request; the runner asks the same keeper for the same ones always."""
        if self._groups:
            return
        self._groups, self._way_back = request["groups"], request["way_back"]
        for group in self._groups:
            write_text(f"{group}/cgroup.procs", "0")

    def leave(self) -> None:
        """Step out and remove them: the runner may be gone."""
        for group in self._way_back:
            with contextlib.suppress(OSError):
                write_text(f"{group}/cgroup.procs", "0")
        for group in self._groups:
            with contextlib.suppress(OSError):
                os.rmdir(group)  # noqa: PTH106 - as above


class Limits:
    """Soft limits of this process, lent to a command and taken back."""

    def __init__(self) -> None:
        """Nothing is changed yet."""
        self._usual: dict[int, tuple[int, int]] = {}

    def lend(self, limits: dict[str, int]) -> None:
        """Lower soft limits by their names in `resource`. Hard ones stay: they could never be taken back."""
        for name, value in limits.items():
            which = getattr(resource, name)
            soft, hard = resource.getrlimit(which)
            self._usual.setdefault(which, (soft, hard))
            limit = value if hard == resource.RLIM_INFINITY else min(value, hard)
            resource.setrlimit(which, (limit, hard))

    def take_back(self) -> None:
        """Restore what was there before."""
        for which, limits in self._usual.items():
            resource.setrlimit(which, limits)
        self._usual.clear()


# --- keeper -------------------------------------------------------------------------------------------


class Keeper:
    """Carries out phases, one at a time."""

    def __init__(self, control: int, warden: int) -> None:
        """Take the control socket; become the parent of every orphan below."""
        os.set_inheritable(control, False)
        self.control = socket.socket(fileno=control)
        self.wakeups = Wakeups(warden)
        self.groups = Groups()
        self.limits = Limits()
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
        trouble = self._start(request, fds)
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
            "seconds": ended - started,
            "barrier_s": time.monotonic() - ended,
            "cpu_s": self.cpu_s,
            "max_rss_mb": self.max_rss / (1024 if LINUX else 1024 * 1024),
        }
        self.control.sendall(json.dumps(report).encode())
        return left == 0

    def _start(self, request: Request, fds: list[int]) -> str:
        """Start the command; return what went wrong on our side of it."""
        doing = "joining its control groups"
        try:
            self.groups.enter(request)
            doing = "setting its limits"
            self.limits.lend(request["rlimits"])
            doing = "entering its working directory"
            os.chdir(request["cwd"])
        except OSError as error:
            return f"{doing}: {error}"
        try:
            with self.victims:
                self.command = spawn(request, fds)
        except OSError as error:
            os.write(fds[2], f"cannot start {request['argv'][0]!r}: {error.strerror}\n".encode())
            self.status = 127 if isinstance(error, FileNotFoundError | NotADirectoryError) else 126
        return ""

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


class Victims:
    """While this is entered, children are born as the first choice of the kernel when memory runs out."""

    def __init__(self) -> None:
        """Remember how this process itself stands."""
        self._usual = ""
        if LINUX:
            with open("/proc/self/oom_score_adj") as file:  # noqa: PTH123 - pathlib is not loaded here
                self._usual = file.read().strip()

    def __enter__(self) -> None:
        """Offer ourselves."""
        if LINUX and int(self._usual) < EASY_OOM_VICTIM:
            write_text("/proc/self/oom_score_adj", str(EASY_OOM_VICTIM))

    def __exit__(self, *_: object) -> None:
        """Step back: the keeper must outlive its tree to tell of its end."""
        if LINUX and int(self._usual) < EASY_OOM_VICTIM:
            write_text("/proc/self/oom_score_adj", self._usual)


# --- warden -------------------------------------------------------------------------------------------


class Warden:
    """Forks keepers on request and ends what a killed keeper left."""

    def __init__(self, link: socket.socket) -> None:
        """Take the socket to the runner."""
        self.link = link
        self.keepers: set[int] = set()
        self.wakeups = Wakeups(os.getppid())
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        set_process_option(PR_SET_CHILD_SUBREAPER, 1)

    def run(self) -> None:
        """Serve until the runner is gone, then until everything is ended."""
        poll = select.poll()
        poll.register(self.link, select.POLLIN)
        poll.register(self.wakeups.fd, select.POLLIN)
        serving = True
        while serving:
            ready = dict(poll.poll())
            if self.wakeups.fd in ready:
                serving = not self.wakeups.drain()
                self._tidy()
            if self.link.fileno() in ready:
                serving = self._serve() and serving
        self._finish()

    def _serve(self) -> bool:
        """Fork a keeper; False when the runner has gone."""
        try:
            message, fds, _, _ = socket.recv_fds(self.link, 1, 1)
        except ConnectionError:
            return False
        if not message:
            return False
        warden = os.getpid()
        pid = os.fork()
        if pid == 0:
            self._become_keeper(fds[0], warden)
        self.keepers.add(pid)
        close_all(fds)
        return True

    def _become_keeper(self, control: int, warden: int) -> NoReturn:
        try:
            os.close(self.wakeups.fd)
            self.link.close()
            keeper = Keeper(control, warden)
            with contextlib.suppress(ConnectionError):
                keeper.serve()
            keeper.groups.leave()
        finally:
            os._exit(0)

    def _tidy(self) -> None:
        """Reap ended children; end those that are nobody's: a killed keeper left them."""
        with contextlib.suppress(ChildProcessError):
            while (pid := os.waitpid(-1, os.WNOHANG)[0]) != 0:
                self.keepers.discard(pid)
        for pid in children():
            if pid not in self.keepers:
                kill(pid)

    def _finish(self) -> None:
        """Wait for the keepers, each of which goes when its runner does; end what they leave."""
        poll = select.poll()
        poll.register(self.wakeups.fd, select.POLLIN)
        deadline = time.monotonic() + END_WITHIN_S
        while True:
            self._tidy()
            if self.keepers:
                deadline = time.monotonic() + END_WITHIN_S
            elif not children() or time.monotonic() > deadline:
                return
            poll.poll(50)
            self.wakeups.drain()


if __name__ == "__main__":
    Warden(socket.socket(fileno=0)).run()
