"""What lies below a path of a container, read through the engine: every name, with a print of what is there.

For what this user may not look into, and for volumes: an engine's own list of changes goes by sizes and
times, which whoever is root inside can set back, and leaves volumes out. A print covers kind, rights, owner
and every byte, but no times.
"""

import asyncio
import hashlib
import io
import posixpath
import queue
import tarfile
from collections.abc import AsyncGenerator, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing
from typing import Final, TypeVar

from labrunner.errors import SandboxFailed

AHEAD: Final = 16
"""How many pieces may wait to be read."""
CHUNK: Final = 1 << 20

Contents = Mapping[str, str]
T = TypeVar("T")


async def take_prints(
    pieces: AsyncGenerator[bytes, None], top: str, is_wanted: Callable[[str], bool]
) -> dict[str, str]:
    """Print everything in a tar archive of `top` that is wanted."""

    def read(archive: tarfile.TarFile) -> dict[str, str]:
        named = ((_path(top, member), member) for member in archive)
        return {path: _print(archive, member) for path, member in named if is_wanted(path)}

    return await read_archive(pieces, top, read)


async def read_archive(
    pieces: AsyncGenerator[bytes, None], top: str, read: Callable[[tarfile.TarFile], T]
) -> T:
    """Read a tar archive of `top` as it arrives. What `read` raises comes out."""
    waiting: queue.Queue[bytes] = queue.Queue(maxsize=AHEAD)
    # In a thread of its own: many that wait for pieces would leave no other to bring them.
    own = ThreadPoolExecutor(1, thread_name_prefix="lab-prints")
    source = _Pieces(waiting)
    reading = asyncio.get_running_loop().run_in_executor(own, _read_all, source, top, read)
    own.shutdown(wait=False)
    try:
        await _hand_over(pieces, source, waiting)
    finally:
        await asyncio.to_thread(waiting.put, b"")
        await asyncio.wait([reading])
    return reading.result()


async def _hand_over(
    pieces: AsyncGenerator[bytes, None], source: "_Pieces", waiting: "queue.Queue[bytes]"
) -> None:
    async with aclosing(pieces) as arriving:
        async for piece in arriving:
            if source.had_enough:
                return
            await asyncio.to_thread(waiting.put, piece)


def differing(before: Contents, now: Contents) -> tuple[str, ...]:
    """Paths that came, went, or are not what they were."""
    return tuple(path for path in sorted({*before, *now}) if before.get(path) != now.get(path))


class _Pieces(io.RawIOBase):
    """An archive that arrives in pieces; an empty one is its end."""

    def __init__(self, waiting: "queue.Queue[bytes]") -> None:
        self._waiting = waiting
        self._left = b""
        self._is_over = False
        self.had_enough = False
        """Nobody reads what is still to come."""

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        while not self._is_over and (size < 0 or len(self._left) < size):
            piece = self._waiting.get()
            self._is_over = not piece
            self._left += piece
        size = len(self._left) if size < 0 else size
        taken, self._left = self._left[:size], self._left[size:]
        return taken

    def drain(self) -> None:
        """Take what is still to come: whoever brings it must not wait for ever."""
        self.had_enough = True
        while not self._is_over:
            self._is_over = not self._waiting.get()


def _read_all(pieces: _Pieces, top: str, read: Callable[[tarfile.TarFile], T]) -> T:
    try:
        with tarfile.open(fileobj=pieces, mode="r|") as archive:
            return read(archive)
    except tarfile.ReadError as error:
        raise SandboxFailed("contents", f"reading what lies in {top} of a container: {error}") from error
    finally:
        pieces.drain()


def _path(top: str, member: tarfile.TarInfo) -> str:
    """Where a member lies: names begin with the last part of the path that was asked for."""
    path = posixpath.normpath(f"{posixpath.dirname(top)}/{member.name}")
    return "/" + path.lstrip("/").encode(errors="surrogateescape").decode(errors="backslashreplace")


def _print(archive: tarfile.TarFile, member: tarfile.TarInfo) -> str:
    facts = (
        member.type,
        member.mode,
        member.uid,
        member.gid,
        member.linkname,
        member.devmajor,
        member.devminor,
    )
    made = hashlib.blake2b(repr(facts).encode(errors="surrogateescape"), digest_size=12)
    content = archive.extractfile(member) if member.isreg() else None
    while content is not None and (chunk := content.read(CHUNK)):
        made.update(chunk)
    return made.hexdigest()
