"""Run inside a sandbox: starts processes that are hard to end; each holds a shared lock on `lock`."""

import fcntl
import os
import signal
import sys
from collections.abc import Callable


def hold(started: int) -> None:
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGQUIT):
        signal.signal(number, signal.SIG_IGN)
    lock = os.open("lock", os.O_RDWR)
    fcntl.flock(lock, fcntl.LOCK_SH)
    os.set_inheritable(lock, True)
    os.write(started, b".")


def fork_then(work: Callable[[int], None], started: int) -> None:
    if os.fork() == 0:
        work(started)
        while True:
            signal.pause()


def plain(started: int) -> None:
    hold(started)


def leader(started: int) -> None:
    os.setsid()
    hold(started)


def daemon(started: int) -> None:
    os.setsid()
    if os.fork():
        os._exit(0)
    os.setpgid(0, 0)
    hold(started)


def nameless(started: int) -> None:
    daemon(started)
    os.execve("/bin/sleep", ["sleep", "1000"], {})


def main() -> None:
    os.close(os.open("lock", os.O_RDWR | os.O_CREAT, 0o600))
    told, started = os.pipe()
    everybody = (plain, leader, daemon, nameless)
    for work in everybody:
        fork_then(work, started)
    for _ in everybody:
        os.read(told, 1)
    with open("started", "w") as file:
        file.write(str(len(everybody)))
    while sys.argv[1] == "stay":
        signal.pause()


main()
