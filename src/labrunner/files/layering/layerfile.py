"""The file of a layer: what was removed below a folder, and what was added or changed there.

A zstd-compressed tar archive. Its first member says which folder it is of and what was removed from it; all
others lie below `work/`, folders before what is in them. Whoever puts it over the same folder again removes
first, then adds; patches are made without its repository, so no hard link leads into that or out of it.
Written under another name, synced, then renamed: a layer that is there is whole.
"""

import hashlib
import io
import os
import tarfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Event
from typing import IO, TYPE_CHECKING, Final, cast

import msgspec

from labrunner.files.descriptors import NEW_FILE, sync, sync_path
from labrunner.files.layering.layernote import LayerNote
from labrunner.files.layering.members import spell
from labrunner.files.points import reach

if TYPE_CHECKING:
    from zstandard import ZstdCompressionWriter

HEAD: Final = "layer.json"
WORK: Final = "work"
LEVEL: Final = 3
LONGEST_PATH: Final = 3800
"""Bytes of a path that an engine can still unpack, with what it puts before it."""
REPOSITORY: Final = ".git"
KINDS: Final = (tarfile.REGTYPE, tarfile.DIRTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE)


class LayerHead(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a layer is of."""

    schema_version: str = "layer_v1"
    folder: str
    """The folder of the image, without links in its path."""
    image: str
    removed: tuple[str, ...] = ()
    """Paths below the folder, gone with all that was in them, bytes that are no text as `\\xe9`; an empty one
    is the folder itself."""


class LayerTooLarge(Exception):
    """It would hold more than it may."""


class LayerGivenUp(Exception):
    """Nobody wants it any more."""


class LayerWriter:
    """A layer that is being written: parents first, each path once."""

    def __init__(self, packed: "ZstdCompressionWriter", most: tuple[int, int], halt: Event) -> None:
        """Take what compresses; `most` is how many bytes of contents and how many entries it may hold."""
        self._packed = packed
        self._most = most
        self._halt = halt
        self.note = LayerNote(problem="it is not written yet")
        """What was written, once it is."""
        self.entries = 0
        self.bytes = 0
        self.left_out: Counter[str] = Counter()

    def add(self, member: tarfile.TarInfo, content: IO[bytes] | None = None) -> None:
        """Add a member whose name is a path below the folder; empty for the folder itself."""
        self.entries, self.bytes = self.entries + 1, self.bytes + member.size
        if self.bytes > self._most[0] or self.entries > self._most[1]:
            raise LayerTooLarge
        placed = rename(member, f"{WORK}/{member.name}" if member.name else WORK)
        if member.islnk():
            placed.linkname = f"{WORK}/{member.linkname}"
        self._put(placed, content)

    def leave_out(self, kind: str) -> None:
        """Count something that a layer can't hold."""
        self.left_out[kind] += 1

    def begin(self, head: LayerHead) -> None:
        """Write what comes first."""
        data = msgspec.json.encode(head)
        member = tarfile.TarInfo(HEAD)
        member.size = len(data)
        self._put(member, io.BytesIO(data))

    def end(self) -> None:
        """Write the end of the archive."""
        self._packed.write(bytes(2 * tarfile.BLOCKSIZE))

    def go_on(self) -> None:
        """See that somebody still wants it. Raises LayerGivenUp."""
        if self._halt.is_set():
            raise LayerGivenUp

    def _put(self, member: tarfile.TarInfo, content: IO[bytes] | None) -> None:
        for piece in spell(member, content):
            self.go_on()
            self._packed.write(piece)


class _Hashed(io.RawIOBase):
    """A file whose digest is known when it is whole."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self.state = hashlib.sha256()
        self.size = 0

    def writable(self) -> bool:
        return True

    def write(self, data: "bytes | bytearray | memoryview") -> int:  # type: ignore[override]  # one buffer
        self.state.update(data)
        self.size += len(data)
        return self._file.write(data)


@contextmanager
def write_layer(
    path: Path, head: LayerHead, most: tuple[int, int], halt: Event | None = None
) -> Iterator[LayerWriter]:
    """Write a layer; it is there, durably, when this is left in peace, and not at all otherwise.

    `halt` may be set by another thread: nobody wants it any more.
    """
    import zstandard  # here, because few attempts have a layer and every command would wait for it

    part = path.with_name(f"{path.name}.part")
    try:
        with os.fdopen(os.open(part, NEW_FILE, 0o600), "wb") as file:
            hashed = _Hashed(file)
            packer = zstandard.ZstdCompressor(level=LEVEL)
            with packer.stream_writer(cast("IO[bytes]", hashed), closefd=False) as packed:  # it only writes
                writing = LayerWriter(packed, most, halt or Event())
                writing.begin(head)
                reach("layer.begun")
                yield writing
                writing.end()
            reach("layer.written")
            file.flush()
            sync(file.fileno())
        writing.go_on()
        part.rename(path)
        reach("layer.renamed")
        sync_path(path.parent)
        reach("layer.done")
    except BaseException:
        with suppress(OSError):
            part.unlink(missing_ok=True)
        raise
    writing.note = LayerNote(
        digest=f"sha256:{hashed.state.hexdigest()}",
        size=hashed.size,
        entries=writing.entries,
        bytes=writing.bytes,
        removed=len(head.removed),
        left_out=dict(writing.left_out),
    )


def rename(member: tarfile.TarInfo, name: str) -> tarfile.TarInfo:
    """The same under another name, with nothing but what a layer keeps: kind, rights, owner, time, link."""
    kept = tarfile.TarInfo(name)
    kept.type = tarfile.REGTYPE if member.isreg() else member.type
    kept.mode, kept.uid, kept.gid = member.mode & 0o7777, member.uid, member.gid
    kept.size = member.size if member.isreg() else 0
    kept.mtime, kept.linkname = member.mtime, member.linkname
    kept.pax_headers = {name: told for name, told in member.pax_headers.items() if name == "mtime"}
    return kept


def is_at(path: str, place: str | None) -> bool:
    """Whether a path is a place, or lies below it."""
    return place is not None and (path == place or path.startswith(f"{place}/"))


def is_of_repository(path: str) -> bool:
    """Whether a path is the repository of the folder, or lies in it."""
    return is_at(path, REPOSITORY)


def spell_path(path: str) -> str:
    """A path as a text: bytes that are none are spelled out, and so is what would look like that."""
    raw = os.fsencode(path.replace("\\", "\\\\"))
    return raw.decode("utf-8", errors="backslashreplace")


def read_path(told: str) -> str:
    """The path again."""
    out, at = bytearray(), 0
    while at < len(told):
        if told.startswith("\\\\", at):
            out += b"\\"
            at += 2
        elif told.startswith("\\x", at):
            out.append(int(told[at + 2 : at + 4], 16))
            at += 4
        else:
            out += told[at].encode()
            at += 1
    return os.fsdecode(bytes(out))
