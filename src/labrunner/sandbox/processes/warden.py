"""Starts the commands of attempts, and ends whatever they started, even when the runner is gone.

A program of its own (`main`), one per runner, standard library only. Four generations:
runner, warden, keepers (forks of the warden, each carrying out one phase after another), commands. Rules:

- A keeper is a child subreaper: whatever is orphaned below it, however often it forked and called
  setsid, becomes its child. It says that a phase ended only when it has no child left.
- Only own children that are not yet reaped are signalled, or the group of such a one: no pid of those
  can belong to anybody else.
- A keeper whose runner or warden has gone ends its tree and goes. A keeper that was killed leaves its
  children to the warden, which ends them.
- Where there are no subreapers (macOS) the command's process group is ended, and no more is promised.

On the wire: one byte with a socket over the warden's standard input makes a keeper, which serves that
socket. There `r`, a length and a JSON request, with what the command gets as descriptors 3, 4, 5, …, starts
a phase; `e` ends it now (and means nothing between phases: it may have crossed the report, which is the
keeper's one answer per request).
"""

import contextlib
import os
import select
import signal
import socket
import time
from typing import NoReturn

from labrunner.sandbox.processes.child import close_all
from labrunner.sandbox.processes.keeper import END_WITHIN_S, Keeper
from labrunner.sandbox.processes.kernel import (
    PR_SET_CHILD_SUBREAPER,
    Wakeups,
    children,
    kill,
    set_process_option,
)


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


def main() -> None:
    """Be the warden; standard input is the socket to the runner."""
    Warden(socket.socket(fileno=0)).run()
