"""Files of other people's task folders: read where they lie, and never from elsewhere on this machine.

Rules: a link that leads out of a task's folder is refused, wherever it lies in it: what it leads to would be
handed to agents and graders. Only plain files are read, and none that is larger than a task's text can be.
"""

import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from labrunner.interop.importers.foreign_values import Refusals

MOST: Final = 16 * 1024 * 1024


def refuse_leaving(folder: Path, refusals: Refusals) -> bool:
    """Refuse links that lead out of a task's folder; say whether there are any."""
    leaving = list(_find_leaving(folder))
    for link in leaving:
        refusals.of(link).add("", "leads out of the task's folder")
    return bool(leaving)


def _find_leaving(folder: Path) -> Iterator[Path]:
    root = os.path.realpath(folder)
    for path in sorted(folder.rglob("*")):
        if path.is_symlink() and not Path(os.path.realpath(path)).is_relative_to(root):
            yield path


def read_foreign(path: Path) -> str:
    """The text of a plain file. Raises OSError, also for what is none, and UnicodeDecodeError."""
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)  # opening a FIFO would wait for a writer
    with os.fdopen(fd, "rb") as file:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise OSError(errno.EINVAL, "it is no plain file (a pipe or a device?)")
        data = file.read(MOST + 1)
    if len(data) > MOST:
        raise OSError(errno.EFBIG, f"it is larger than {MOST >> 20} MiB")
    return data.decode("utf-8")


def tell_unreadable(error: OSError | UnicodeDecodeError) -> str:
    """Why a text could not be read, in words."""
    if isinstance(error, UnicodeDecodeError):
        return f"is not UTF-8 text (byte {error.start})"
    return f"can't be read: {error.strerror}"
