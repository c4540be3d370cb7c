"""How files are opened where somebody else may have put anything there, and how they are made durable.

Standard library only: processes beside the runner use it too.
"""

import os
from typing import Final

FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
"""A folder, itself: never where a link leads."""
FILE: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
"""A file, itself: never where a link leads, and without waiting for anything, such as a FIFO's writer."""
NEW_FILE: Final = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
"""A file to be written from its beginning."""


def sync(fd: int) -> None:
    """Have what was written to a file or folder survive a power cut."""
    os.fsync(fd)
