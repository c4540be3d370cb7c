"""Reading what an author wrote: plain files only.

A FIFO would let us wait forever, a device never end; and `lab continue` and `lab retry` read the file again.
"""

import errno
import os
import stat
from pathlib import Path


def read_authored(path: Path) -> bytes:
    """Read a whole file. Raises OSError, also for what is no plain file."""
    mode = path.stat().st_mode
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if not stat.S_ISREG(mode):
        raise OSError(errno.EINVAL, "it is no plain file (a pipe or a device?)")
    return path.read_bytes()
