"""Run inside a container: makes every system call with nonsense, each in a process of its own."""

import ctypes
import json
import os
import signal
import socket

LIBC = ctypes.CDLL(None, use_errno=True)
NONSENSE = -1
DEADLY = {15, 59, 231, 60, 322}
"""rt_sigreturn, execve, exit_group, exit, execveat: nothing can be told of them."""


def attempt(number: int, *args: int) -> int:
    """The error of a call: 0 for none, 1000 for a process that did not live to tell."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        signal.alarm(2)
        LIBC.syscall(number, *args)
        os.write(writer, ctypes.get_errno().to_bytes(2, "big"))
        os._exit(0)
    os.close(writer)
    with open(reader, "rb") as answer:
        said = answer.read(2)
    os.waitpid(child, 0)
    return int.from_bytes(said, "big") if said else 1000


def main() -> None:
    found = {str(number): attempt(number, *[NONSENSE] * 6) for number in range(452) if number not in DEADLY}
    for name in ("AF_UNIX", "AF_INET", "AF_INET6", "AF_NETLINK", "AF_PACKET", "AF_VSOCK"):
        found[name] = attempt(41, int(getattr(socket, name)), int(socket.SOCK_STREAM), 0)
    print(json.dumps(found))


main()
