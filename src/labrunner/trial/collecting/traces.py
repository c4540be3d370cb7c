"""Whether an agent left any trace: asked at the barrier, before a grader writes anywhere.

Rules: it costs little where there is a trace, which is found first, and is given up where there is too much
to look at. Times of change are compared with a file that was written last before the agent began; owners
and rights do not count, because sandboxes change them. In doubt there is a trace.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from labrunner.files.strangers.hostile import list_names
from labrunner.sandbox.door import AttemptFolders

MOST_LOOKED_AT: Final = 20_000


def is_untouched(folders: AttemptFolders, most: int = MOST_LOOKED_AT) -> bool:
    """Whether the workspace is as it was laid out, and nothing lies in `out/` and `state/`."""
    try:
        if list_names(folders.out) or list_names(folders.state):
            return False
        began = (folders.inputs / "policy.json").lstat().st_mtime_ns
        for number, changed in enumerate(_times_of_change(folders.workspace), start=1):
            if changed > began or number > most:
                return False
    except OSError:  # whatever can't be looked at was made by somebody
        return False
    return True


def _times_of_change(folder: Path) -> Iterator[int]:
    """Of a folder and everything below it; folders before what is in them. Links are not followed."""
    yield folder.lstat().st_mtime_ns
    waiting = [str(folder)]
    while waiting:
        with os.scandir(waiting.pop()) as entries:
            found = list(entries)
        yield from (entry.stat(follow_symlinks=False).st_mtime_ns for entry in found)
        waiting.extend(entry.path for entry in found if entry.is_dir(follow_symlinks=False))
