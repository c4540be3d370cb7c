"""A listener on the loopback of somebody else's network namespace, served from outside.

Rules: nothing runs inside and nothing is left there but the socket, which belongs to its namespace for
ever. Root joins the network by a thread that does nothing else and ends there. Who is not root joins a user
namespace first, which a process with threads can't: a forked child does it, touches only what was loaded
before the fork, and hands the socket over. Our own namespace is never taken for a sandbox's.
"""

import ctypes
import fcntl
import os
import socket
import sys
import threading
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from labrunner.errors import SandboxFailed

LOOPBACK: Final = "127.0.0.1"
_LINE: Final = 1024
_PATIENCE_S: Final = 10.0
_NEWUSER: Final = 0x10000000
_NEWNET: Final = 0x40000000
_FREEBIND: Final = 15  # IP_FREEBIND
_GET_OWNER: Final = 0xB701  # NS_GET_USERNS
_REASON: Final = "gateway_not_planted"

_libc: Final = ctypes.CDLL(None, use_errno=True)


def plant(pid: int, *, port: int = 0) -> socket.socket:
    """Listen on the loopback of a process' network namespace; blocks for a millisecond, or a few.

    `pid` is any process of the sandbox. Who is not root first joins the user namespace that owns the network:
    not always the process' own, which bubblewrap nests one deeper. Raises SandboxFailed.
    """
    doing = f"listening inside the network namespace of process {pid}"
    with SandboxFailed.during(_REASON, doing), ExitStack() as stack:
        net = _kept(stack, os.open(f"/proc/{pid}/ns/net", os.O_RDONLY | os.O_CLOEXEC))
        if _is_ours(net):
            raise SandboxFailed(_REASON, f"{doing}: it is our own: the sandbox has no network namespace")
        if os.geteuid() == 0:
            return _plant_by_thread(net, port, doing)
        spaces = [(_kept(stack, fcntl.ioctl(net, _GET_OWNER)), _NEWUSER), (net, _NEWNET)]
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        stack.enter_context(ours)
        with theirs:
            child = os.fork()
            if child == 0:
                _be_child(theirs, spaces, port)
        return _receive(ours, child, doing)


def _kept(stack: ExitStack, fd: int) -> int:
    stack.callback(os.close, fd)
    return fd


def _is_ours(fd: int) -> bool:
    mine, given = Path("/proc/self/ns/net").stat(), os.fstat(fd)
    return (mine.st_dev, mine.st_ino) == (given.st_dev, given.st_ino)


def _plant_by_thread(net: int, port: int, doing: str) -> socket.socket:
    """Join by a thread of its own, which never comes back."""
    made: list[socket.socket | OSError] = []

    def work() -> None:
        try:
            _join(net, _NEWNET)
            made.append(_listen(port))
        except OSError as error:
            made.append(error)

    thread = threading.Thread(target=work, name="planting")
    thread.start()
    thread.join()
    if isinstance(made[0], OSError):
        raise _refusal(doing, os.strerror(made[0].errno or 0))
    return made[0]


def _be_child(way_out: socket.socket, spaces: list[tuple[int, int]], port: int) -> None:
    """Join, listen, hand over, and be gone: never returns."""
    try:
        for fd, flag in spaces:
            _join(fd, flag)
        listener = _listen(port)
        number = listener.fileno().to_bytes(4, sys.byteorder)
        way_out.sendmsg([b"+"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, number)])
    except OSError as error:
        way_out.send(b"-%d" % (error.errno or 0))
    finally:
        os._exit(0)


def _listen(port: int) -> socket.socket:
    """Listen where this thread is. Raises OSError."""
    with ExitStack() as stack:
        listener = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_STREAM))
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.setsockopt(socket.SOL_IP, _FREEBIND, 1)  # bubblewrap may not have put its loopback up yet
        listener.bind((LOOPBACK, port))
        listener.listen(_LINE)
        stack.pop_all()
        return listener


def _join(fd: int, flag: int) -> None:
    if _libc.setns(fd, flag) != 0:
        raise OSError(ctypes.get_errno(), "setns")


def _receive(ours: socket.socket, child: int, doing: str) -> socket.socket:
    ours.settimeout(_PATIENCE_S)
    try:
        word, fds, _, _ = socket.recv_fds(ours, 64, 1)
    except TimeoutError:
        os.kill(child, 9)
        raise
    finally:
        os.waitpid(child, 0)
    if word[:1] == b"+" and fds:
        return socket.socket(fileno=fds[0])
    number = int(word[1:] or b"0")
    raise _refusal(doing, os.strerror(number) if number else "the child that should do it died")


def _refusal(doing: str, told: str) -> SandboxFailed:
    return SandboxFailed(_REASON, f"{doing}: {told.lower()}; is this process allowed to join it?")
