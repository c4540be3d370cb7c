"""The inner end of a line: a terminal in a sandbox without a daemon, and the command that runs at it.

Standard library only: it is given to the sandbox's interpreter as text. Reads frames (`d`: what was typed,
`w`: the window's size) from a socket in its temporary folder, and writes what is shown as it is.
"""

import fcntl
import os
import pathlib
import pty
import select
import socket
import struct
import sys
import termios
import time

NAME = ".terminal"
HEAD = struct.Struct("!cI")
SIZE = struct.Struct("!HH")
PIECE = 65536
DRAINED_S = 0.5
"""How long what a command left running may go on holding its terminal."""


def connect() -> socket.socket:
    """Reach the outer end; the folder's path may be longer than a socket's address."""
    line, here = socket.socket(socket.AF_UNIX), os.getcwd()  # noqa: PTH109 - pathlib is slow to load
    os.chdir(os.environ["TMPDIR"])
    line.connect(NAME)
    pathlib.Path(NAME).unlink()
    os.chdir(here)
    return line


def read_frame(line: socket.socket) -> tuple[bytes, bytes]:
    """The next frame; an empty kind at the end."""
    head = read_exactly(line, HEAD.size)
    if len(head) < HEAD.size:
        return b"", b""
    kind, length = HEAD.unpack(head)
    return kind, read_exactly(line, length)


def read_exactly(line: socket.socket, length: int) -> bytes:
    """So many bytes, or fewer at the end."""
    data = b""
    while len(data) < length and (piece := line.recv(length - len(data))):
        data += piece
    return data


def resize(terminal: int, size: bytes) -> None:
    """Give a terminal a window's size."""
    rows, columns = SIZE.unpack(size)
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))


def start(argv: list[str], size: bytes) -> tuple[int, int]:
    """Start the command at a terminal of its own, of that size from the first moment."""
    pid, terminal = pty.fork()
    if pid == 0:
        try:
            resize(0, size)
            os.environ.pop("PYTHONSAFEPATH", None)
            os.execvp(argv[0], argv)
        except OSError as error:
            os.write(2, f"{argv[0]}: {error.strerror}\r\n".encode())
        os._exit(127)
    return pid, terminal


def carry(line: socket.socket, terminal: int, pid: int) -> int:
    """Carry bytes both ways until the command has ended; its exit status.

    Nothing waits for a terminal that takes no more: what echoes takes only as much as is read from it.
    """
    os.set_blocking(terminal, False)
    status, ended_at, typed, is_heard = None, 0.0, b"", True
    while status is None or time.monotonic() - ended_at < DRAINED_S:
        if status is None and (status := ask_status(pid)) is not None:
            ended_at = time.monotonic()
        sources = [line.fileno(), terminal] if is_heard and len(typed) < PIECE else [terminal]
        ready, free, _ = select.select(sources, [terminal] if typed else [], [], 0.05)
        if terminal in ready:
            try:
                line.sendall(os.read(terminal, PIECE))
            except OSError:  # nobody holds the other side any more, or nobody looks
                break
        if free:
            typed = typed[put(terminal, typed) :]
        if line.fileno() in ready:
            kind, data = read_frame(line)
            if kind == b"d":
                typed += data
            elif kind == b"w":
                resize(terminal, data)
            else:
                is_heard = False
    if status is None:
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    return status if status >= 0 else 128 - status


def ask_status(pid: int) -> "int | None":
    """The exit status of a command that has ended."""
    found, told = os.waitpid(pid, os.WNOHANG)
    return os.waitstatus_to_exitcode(told) if found else None


def put(terminal: int, typed: bytes) -> int:
    """Type into a terminal; how much it took."""
    try:
        return os.write(terminal, typed)
    except BlockingIOError:
        return 0


def main() -> int:
    """Run the command that the arguments say."""
    line = connect()
    kind, size = read_frame(line)
    if kind != b"w":
        return 1
    pid, terminal = start(sys.argv[1:], size)
    return carry(line, terminal, pid)


if __name__ == "__main__":
    sys.exit(main())
