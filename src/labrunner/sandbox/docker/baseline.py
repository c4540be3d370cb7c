"""What setup changed in the system, noted before an agent exists: none of that is the agent's doing.

Kept beside the attempt's folders for whoever adopts it. Where this host can look into the container's layer,
each path is noted with the time of its last change, which nothing inside can set back: what an agent does to
a path that setup had changed before is seen, too.
"""

import os
import stat
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

import msgspec

from labrunner.errors import SandboxFailed
from labrunner.sandbox.docker.record import write_synced
from labrunner.sandbox.door import AttemptFolders

FILE: Final = "setup.json"
UNKNOWN, REMOVED = 0, 1

Baseline = Mapping[str, int]
"""Paths, and when each was changed: in nanoseconds, or one of the two words."""


def read_baseline(folders: AttemptFolders) -> Baseline | None:
    """Read what was noted; None when nothing was, or its writing was cut off."""
    try:
        return msgspec.json.decode((folders.root / FILE).read_bytes(), type=dict[str, int])
    except (FileNotFoundError, msgspec.DecodeError):
        return None
    except OSError as error:
        raise SandboxFailed("record", f"reading {folders.root / FILE}: {error}") from error


def write_baseline(folders: AttemptFolders, changes: Iterable[str], layer: Path | None) -> None:
    """Note what has changed so far."""
    with SandboxFailed.during("record", f"writing {folders.root / FILE}"):
        noted = {path: _changed_at(layer, path) for path in changes}
        write_synced(folders.root, FILE, msgspec.json.encode(noted))


def since(baseline: Baseline, changes: Iterable[str], layer: Path | None) -> tuple[str, ...]:
    """Those of the changes that came after what was noted."""
    return tuple(path for path in changes if baseline.get(path) != _changed_at(layer, path))


def _changed_at(layer: Path | None, path: str) -> int:
    try:
        facts = os.lstat(f"{layer}{path}") if layer is not None else None
    except OSError:
        return UNKNOWN
    if facts is None:
        return UNKNOWN
    # Files that were removed are all links to one such thing: each that comes or goes changes its time.
    is_gone = stat.S_ISCHR(facts.st_mode) and facts.st_rdev == 0
    return REMOVED if is_gone else facts.st_ctime_ns
