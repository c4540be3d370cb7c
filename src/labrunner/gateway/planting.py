"""A listener on the loopback of somebody else's network namespace, served from outside.

Rules: nothing runs inside and nothing is left there but the socket, which belongs to its namespace for
ever. The joining is done by a forked child that does nothing else: a process with threads can't join a
user namespace, and ours must not leave its own. The child touches only what was loaded before the fork.
Our own namespace is never taken for a sandbox's.
"""

import ctypes
import fcntl
import os
import socket
import sys
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
    """Listen on the loopback of a process' network namespace; blocks for a few milliseconds.

    `pid` is any process of the sandbox. Who is not root first joins the user namespace that owns the network:
    not always the process' own, which bubblewrap nests one deeper. Raises SandboxFailed.
    """
    doing = f"listening inside the network namespace of process {pid}"
    with SandboxFailed.during(_REASON, doing), ExitStack() as stack:
        net = _kept(stack, os.open(f"/proc/{pid}/ns/net", os.O_RDONLY | os.O_CLOEXEC))
        if _is_ours(net):
            raise SandboxFailed(_REASON, f"{doing}: it is our own: the sandbox has no network namespace")
        spaces = [(net, _NEWNET)]
        if os.geteuid() != 0:
            spaces.insert(0, (_kept(stack, fcntl.ioctl(net, _GET_OWNER)), _NEWUSER))
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


def _be_child(way_out: socket.socket, spaces: list[tuple[int, int]], port: int) -> None:
    """Join, listen, hand over, and be gone: never returns."""
    try:
        for fd, flag in spaces:
            _join(fd, flag)
        listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.setsockopt(socket.SOL_IP, _FREEBIND, 1)  # bubblewrap may not have put its loopback up yet
        listener.bind((LOOPBACK, port))
        listener.listen(_LINE)
        number = listener.fileno().to_bytes(4, sys.byteorder)
        way_out.sendmsg([b"+"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, number)])
    except OSError as error:
        way_out.send(b"-%d" % (error.errno or 0))
    finally:
        os._exit(0)


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
    told = os.strerror(number).lower() if number else "the child that should do it died"
    raise SandboxFailed(_REASON, f"{doing}: {told}; is this process allowed to join it?")
