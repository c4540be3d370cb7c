"""A terminal in a sandbox, at its inner end."""

import os
import socket
import threading

from labrunner.sandbox.terminals.inner_end import HEAD, PIECE, SIZE, carry, start

PASTED = 1 << 20


def paste(line: socket.socket) -> None:
    for _ in range(PASTED // PIECE):
        line.sendall(HEAD.pack(b"d", PIECE) + b"x" * PIECE)


def test_a_large_paste_into_what_echoes_comes_back_whole() -> None:
    command = f"stty raw -echo; echo ready; exec head -c {PASTED}"
    pid, terminal = start(["sh", "-c", command], SIZE.pack(24, 80))
    outer, inner = socket.socketpair()
    carrying = threading.Thread(target=carry, args=(inner, terminal, pid), daemon=True)
    pasting = threading.Thread(target=paste, args=(outer,), daemon=True)
    with outer, inner:
        outer.settimeout(20)
        carrying.start()
        seen = b""
        while b"ready\n" not in seen:
            seen += outer.recv(PIECE)
        pasting.start()
        while seen.count(b"x") < PASTED:
            seen += outer.recv(PIECE)
        pasting.join(20)
        carrying.join(20)
        assert not carrying.is_alive()
    os.close(terminal)
