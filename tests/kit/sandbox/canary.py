"""Run inside a sandbox: looks for a word in everything there is, and writes where it was to `found.json`."""

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

WORD = bytes.fromhex(sys.argv[1])
"""In hexadecimal, so that it does not find its own command line."""
SKIP = (
    "/usr",
    "/proc/kcore",
    "/proc/kmsg",
    "/proc/kpage",
    "/dev",
    "/proc/sys/fs/binfmt_misc",
    sys.base_prefix,
    sys.prefix,
)


def files(top: str) -> Iterator[str]:
    for folder, folders, names in os.walk(top):
        folders[:] = [name for name in folders if not os.path.join(folder, name).startswith(SKIP)]
        yield from (os.path.join(folder, name) for name in names)


def holds(path: str) -> bool:
    if WORD in path.encode() or (os.path.islink(path) and WORD in os.readlink(path).encode()):
        return True
    if path.startswith(SKIP) or not (os.path.isfile(path) or path.startswith("/proc")):
        return False
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    except OSError:
        return False
    try:
        return WORD in os.read(fd, 1 << 22)
    except OSError:
        return False
    finally:
        os.close(fd)


found = [path for path in files("/") if holds(path)]
found += [name for name, value in os.environ.items() if WORD in f"{name}={value}".encode()]
Path("found.json").write_text(json.dumps({"found": found, "looked": sum(1 for _ in files("/"))}))
