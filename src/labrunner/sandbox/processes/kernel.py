"""What warden and keepers ask of the kernel: signals, children, process options.

Standard library only, and little of it: this runs in a small process of its own
(`labrunner.sandbox.processes.warden`).
"""

import contextlib
import ctypes
import os
import signal
import sys
from collections.abc import Iterator

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
KEYCTL = {"x86_64": 250, "aarch64": 219}
JOIN_SESSION_KEYRING = 1
LINUX = sys.platform == "linux"
LIBC = ctypes.CDLL(None)


def set_process_option(option: int, value: int) -> None:
    """Call prctl, where there is one."""
    if LINUX:
        LIBC.prctl(option, value, 0, 0, 0)


def take_fresh_keyring() -> None:
    """Leave the session keyring that we share with others for one that is new, empty and without a name.

    Where the kernel gives none (it has no keyrings, or this user has too many keys) we stay where we are.
    """
    number = KEYCTL.get(os.uname().machine) if LINUX else None
    if number is not None:
        LIBC.syscall(number, JOIN_SESSION_KEYRING, None)


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
