"""How the system was before an agent: what setup changed in it, what its volumes held.

None of that is the agent's doing. Kept beside the attempt's folders for whoever adopts it. Where this host
can look into the container's layer, each path is noted with the time of its last change, which nothing inside
can set back: what an agent does to a path that setup had changed before is seen, too. Elsewhere every file is
noted by its content.
"""

import os
import stat
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

import msgspec

from labrunner.errors import SandboxFailed
from labrunner.files.durable import put_whole
from labrunner.sandbox.door import AttemptFolders

FILE: Final = "before.json"
UNKNOWN, REMOVED = 0, 1

Stamps = Mapping[str, int]
"""Paths, and when each was changed: in nanoseconds, or one of the two words."""


class Baseline(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What was noted."""

    stamps: dict[str, int] | None = None
    """What setup changed."""
    contents: dict[str, str] | None = None
    """Everything, by its content, where no layer can be looked into."""
    volumes: dict[str, str] = msgspec.field(default_factory=dict)
    """What the image's volumes held, by its content."""


def read_baseline(folders: AttemptFolders) -> Baseline | None:
    """Read what was noted; None when nothing was, or its writing was cut off."""
    try:
        return msgspec.json.decode((folders.root / FILE).read_bytes(), type=Baseline)
    except (FileNotFoundError, msgspec.DecodeError):
        return None
    except OSError as error:
        raise SandboxFailed("record", f"reading {folders.root / FILE}: {error}") from error


def write_baseline(folders: AttemptFolders, baseline: Baseline) -> None:
    """Note how it was."""
    with SandboxFailed.during("record", f"writing {folders.root / FILE}"):
        put_whole(folders.root / FILE, msgspec.json.encode(baseline))


def stamp(changes: Iterable[str], layer: Path) -> dict[str, int]:
    """When each of these paths was changed."""
    return {path: _changed_at(layer, path) for path in changes}


def since(noted: Stamps, changes: Iterable[str], layer: Path) -> tuple[str, ...]:
    """Paths that were changed, or changed back, after they were noted. What can't be known was."""
    now = stamp({*changes, *noted}, layer)
    return tuple(sorted(path for path, at in now.items() if at == UNKNOWN or noted.get(path) != at))


def _changed_at(layer: Path, path: str) -> int:
    try:
        facts = os.lstat(f"{layer}{path}")
    except OSError:
        return UNKNOWN
    # Files that were removed are all links to one such thing: each that comes or goes changes its time.
    is_gone = stat.S_ISCHR(facts.st_mode) and facts.st_rdev == 0
    return REMOVED if is_gone else facts.st_ctime_ns
