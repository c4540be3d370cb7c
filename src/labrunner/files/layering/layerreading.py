"""Reading a layer back, as strictly as what a stranger wrote.

Rules: a path stays below its folder, is given once, and everything above it is a folder that this very layer
made before: so nothing is ever written through a link, whether the layer brought it or the image had it. A
hard link leads to a plain file of the same layer. Devices, sockets and anything unheard of are refused, and
of what is kept of a member nothing but kind, rights, owner, time and link goes on.
"""

import io
import re
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Final

import msgspec

from labrunner.files.layering.layerfile import (
    HEAD,
    KINDS,
    LONGEST_PATH,
    WORK,
    LayerHead,
    is_at,
    read_path,
    rename,
)
from labrunner.files.layering.memberreading import LayerRefused, MemberReader, Unpacked
from labrunner.files.layering.members import spell
from labrunner.files.strangers.hostile import open_plain

MOST_OF_A_HEAD: Final = 256 * 1024 * 1024
PIECE: Final = 256 * 1024
READ_AHEAD: Final = 256 * 1024
_TIME: Final = re.compile(r"-?\d{1,12}(\.\d{1,12})?")


Entry = tuple[tarfile.TarInfo, IO[bytes] | None]
"""What lies below the folder, named by its path there: empty for the folder itself."""


@dataclass(slots=True, kw_only=True)
class LayerReader:
    """A layer that is being read, once, from its beginning."""

    head: LayerHead
    members: MemberReader
    _kinds: dict[str, bytes] = field(default_factory=dict)

    def entries(self) -> Iterator[Entry]:
        """Everything in it, in order. Raises LayerRefused."""
        while (found := self.members.next()) is not None:
            member, content = found
            path = self._check(member)
            self._kinds[path] = member.type
            kept = rename(member, path)
            if member.islnk():
                kept.linkname = _inner(member.linkname)
            yield kept, content

    def _check(self, member: tarfile.TarInfo) -> str:
        path = _inner(member.name)
        kind = member.type
        if kind not in KINDS:
            raise LayerRefused(f"{path!r} is of a kind that layers do not have")
        if path in self._kinds:
            raise LayerRefused(f"{path!r} is in it twice")
        if path and self._kinds.get(path.rpartition("/")[0]) != tarfile.DIRTYPE:
            raise LayerRefused(f"{path!r} lies in no folder of it")
        if not path and kind != tarfile.DIRTYPE:
            raise LayerRefused("what it is of is no folder")
        if kind == tarfile.LNKTYPE and self._kinds.get(_inner(member.linkname)) != tarfile.REGTYPE:
            raise LayerRefused(f"{path!r} is a link to no file of it")
        if _TIME.fullmatch(member.pax_headers.get("mtime", "0")) is None:
            raise LayerRefused(f"{path!r} has no time")
        return path


@contextmanager
def open_layer(path: Path) -> Iterator[LayerReader]:
    """Open a layer. Raises LayerRefused, OSError."""
    try:
        with open_plain(path) as file, io.BufferedReader(Unpacked(file), READ_AHEAD) as plain:
            members = MemberReader(plain)
            yield LayerReader(head=_read_head(members), members=members)
    except ValueError as error:
        raise LayerRefused(f"{path} is no layer: {error}") from error


def _read_head(members: MemberReader) -> LayerHead:
    first, content = members.next() or (None, None)
    if first is None or content is None or first.name != HEAD or first.size > MOST_OF_A_HEAD:
        raise LayerRefused("it does not begin as layers do")
    head = msgspec.json.decode(content.read(), type=LayerHead)
    if head.schema_version != "layer_v1":
        raise LayerRefused(f"it is a {head.schema_version}, of another version of lab")
    if not head.folder.startswith("/") or head.folder == "/" or not _is_inner(head.folder[1:]):
        raise LayerRefused(f"it is of {head.folder!r}, which is no folder of an image")
    for told in head.removed:
        if told and not _is_inner(read_path(told)):
            raise LayerRefused(f"it removes {told!r}, which does not lie below its folder")
    return head


def stream_tar(reader: LayerReader, without: str | None = None) -> Iterator[bytes]:
    """The layer as a plain tar archive for the root of a container, in pieces; `without` one path of it."""
    top, waiting, size = reader.head.folder[1:], list[bytes](), 0
    for member, content in reader.entries():
        if is_at(member.name, without):
            continue
        placed = rename(member, f"{top}/{member.name}" if member.name else top)
        if member.islnk():
            placed.linkname = f"{top}/{member.linkname}"
        for piece in spell(placed, content):
            waiting.append(piece)
            size += len(piece)
            if size >= PIECE:
                yield b"".join(waiting)
                waiting, size = [], 0
    yield b"".join((*waiting, bytes(2 * tarfile.BLOCKSIZE)))


def _inner(name: str) -> str:
    """A member's path below its folder. Raises LayerRefused."""
    if name == WORK:
        return ""
    top, _, path = name.partition("/")
    if top != WORK or not _is_inner(path):
        raise LayerRefused(f"{name!r} does not lie below its folder")
    return path


def _is_inner(path: str) -> bool:
    is_short = len(path.encode(errors="surrogateescape")) <= LONGEST_PATH
    return is_short and "\0" not in path and not {"", ".", ".."}.intersection(path.split("/"))
