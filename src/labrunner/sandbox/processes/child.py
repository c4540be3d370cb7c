"""Starting a phase's command in a keeper: what it inherits, and what is taken back afterwards.

Standard library only, see `labrunner.sandbox.processes.warden`. The command is spawned without a fork of
Python, so whatever it must inherit (limits, groups, directory) its keeper takes on first.
"""

import contextlib
import fcntl
import os
import resource
import signal
from typing import Any

from labrunner.sandbox.processes.kernel import LINUX, write_text

FIRST_SPARE_FD = 128  # above any number that a command is given
EASY_OOM_VICTIM = 500

IN = os.O_RDONLY | os.O_CLOEXEC
LOG = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC

Request = dict[
    str, Any
]  # JSON of our own making, see `labrunner.sandbox.processes.warden_client.Request`; groups, way_back


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


def open_streams(paths: list[str]) -> list[int]:
    """Open standard input, output and error, in this order. Output of an earlier try stays before ours."""
    opened: list[int] = []
    try:
        for path, how in zip(paths, (IN, LOG, LOG), strict=True):
            opened.append(os.open(path, how, 0o600))
    except OSError:
        close_all(opened)
        raise
    return lift(opened)


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


class ChildLimits:
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
