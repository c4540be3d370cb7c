"""Files that people asked for: there whole, or not at all.

Rule: what was there before stays until the new file is complete. Devices and pipes are written to directly.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from labrunner.files.durable import storing


@contextmanager
def replacing(target: Path) -> Iterator[Path]:
    """A path to write to, which becomes `target` when nothing went wrong. Raises StoreError."""
    with storing("writing", target):
        if target.exists() and not target.is_file():
            yield target
            return
        real = target.resolve()
        place = real.with_name(f".{real.name}.{os.getpid()}.part")
        try:
            yield place
            place.replace(real)
        finally:
            place.unlink(missing_ok=True)
