"""Where a run's gateway is found: a folder in the run's directory.

    gateway/lock     locked by the process, for as long as it lives
    gateway/socket   where its owner speaks to it
    gateway/log      what went wrong in it, for people

Rule: the folder is its user's alone. Socket addresses are short, paths are not: the folder is opened, and the
socket is named below its descriptor.
"""

import asyncio
import fcntl
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from labrunner.files.filesystem import flock

_FDS: Final = Path("/proc/self/fd")


@dataclass(frozen=True, slots=True)
class GatewayPlace:
    """The folder of one run's gateway."""

    folder: Path

    @property
    def log(self) -> Path:
        """What went wrong."""
        return self.folder / "log"

    def make(self) -> None:
        """Make the folder."""
        self.folder.mkdir(mode=0o700, exist_ok=True)

    def lock(self) -> int | None:
        """Own the place for as long as this process lives; None when another process does."""
        fd = os.open(self.folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        if flock(fd, fcntl.LOCK_EX):
            return fd
        os.close(fd)
        return None

    def listen(self) -> socket.socket:
        """Listen where owners come; only for who has the lock."""
        with self._short("socket") as path:
            with suppress(FileNotFoundError):
                Path(path).unlink()
            listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            listener.bind(path)
        (self.folder / "socket").chmod(0o600)
        listener.listen(8)
        return listener

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Speak to the process. Raises OSError when none is there."""
        with self._short("socket") as path:
            return await asyncio.open_unix_connection(path)

    async def answers(self) -> bool:
        """Whether a process is there."""
        try:
            _, writer = await self.connect()
        except OSError:
            return False
        writer.close()
        return True

    def leave(self) -> None:
        """Remove what nobody finds anybody by any more."""
        (self.folder / "socket").unlink(missing_ok=True)

    @contextmanager
    def _short(self, name: str) -> Iterator[str]:
        fd = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            yield str(_FDS / str(fd) / name) if _FDS.is_dir() else str(self.folder / name)
        finally:
            os.close(fd)
