"""Run inside a sandbox: reads the keys of the session's keyring, leaves one, and says what came of it."""

import ctypes
import json
import os
import sys
from pathlib import Path

LIBC = ctypes.CDLL(None, use_errno=True)
ADD_KEY, KEYCTL = (248, 250) if os.uname().machine == "x86_64" else (217, 219)
SESSION, READ = -3, 11


def read(key: int) -> bytes:
    room = ctypes.create_string_buffer(4096)
    size = LIBC.syscall(KEYCTL, READ, key, room, len(room))
    return room.raw[:size] if size >= 0 else b""


def leave(name: str, word: bytes) -> int:
    added: int = LIBC.syscall(ADD_KEY, b"user", name.encode(), word, len(word), SESSION)
    return added


def look() -> list[str]:
    keys = memoryview(read(SESSION)).cast("i").tolist()
    return [word.decode(errors="replace") for key in keys if (word := read(key))]


if __name__ == "__main__":
    seen = look()
    left = leave(f"left-{os.getpid()}", sys.argv[1].encode()) >= 0
    Path(sys.argv[2]).write_text(json.dumps({"seen": seen, "left": left}))
