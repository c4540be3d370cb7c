"""How far an installation is, told from time to time: package managers say nothing that can be relied on."""

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

Tell = Callable[[str], None]
_PULSE_S: Final = 10.0


@contextmanager
def telling_progress(label: str, tree: Path, tell: Tell) -> Iterator[None]:
    """Tell how long it takes and how much is there, every few seconds, until it is done."""
    began, done = time.monotonic(), threading.Event()

    def pulse() -> None:
        while not done.wait(_PULSE_S):
            tell(f"installing {label}: {time.monotonic() - began:.0f} s, {_count(tree) / 1e6:,.0f} MB so far")

    beating = threading.Thread(target=pulse, daemon=True)
    beating.start()
    try:
        yield
    finally:
        done.set()
        beating.join()


def _count(tree: Path) -> int:
    """Bytes of a tree that is being written."""
    total = 0
    for folder, _, names in os.walk(tree):
        for name in names:
            try:
                total += Path(folder, name).lstat().st_size
            except FileNotFoundError:
                continue
    return total
