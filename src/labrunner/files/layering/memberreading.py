"""Reads members of a layer's archive: the form in which `members` spells them, and no other.

Rules: what a layer of ours would not say is refused, not guessed: other kinds of heads, numbers that are
none, a name in two parts, a content that is cut off.
"""

import io
import re
import tarfile
from dataclasses import dataclass
from typing import IO, Final

BLOCK: Final = tarfile.BLOCKSIZE
SMALL: Final = 1 << 20
"""Bytes of a content that is held as a whole."""
MOST_SAID: Final = 1 << 16
"""Bytes of what is said of one member beside its head: paths are shorter."""
_NOTHING: Final = bytes(BLOCK)
_NUMBER: Final = re.compile(rb"[0-7]+")
_MAGIC: Final = b"ustar\x0000"


class LayerRefused(Exception):
    """A layer that is not as `lab` writes them; never put anywhere."""


class Unpacked(io.RawIOBase):
    """A zstd-compressed file as what it holds."""

    def __init__(self, file: IO[bytes]) -> None:
        import zstandard  # here, because few attempts have a layer and every command would wait for it

        self._stream = zstandard.ZstdDecompressor().stream_reader(file)
        self._error = zstandard.ZstdError

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: "bytearray | memoryview") -> int:  # type: ignore[override]  # one buffer
        try:
            data = self._stream.read(len(buffer))
        except self._error as error:
            raise LayerRefused(f"it can't be decompressed: {error}") from error
        buffer[: len(data)] = data
        return len(data)


@dataclass(slots=True)
class MemberReader:
    """The members of an archive, one after another."""

    source: IO[bytes]
    _left: int = 0
    """Bytes of the last member that nobody has read yet, with what fills its last block."""
    _content: "_Content | None" = None

    def next(self) -> tuple[tarfile.TarInfo, IO[bytes] | None] | None:
        """The next one; None at the end. The content of the one before is gone. Raises LayerRefused."""
        self._skip()
        head = self._take(BLOCK)
        if head == _NOTHING:
            return None
        said = dict[str, bytes]()
        if head[156:157] == tarfile.XHDTYPE:
            said = self._read_said(_read_head(head).size)
            head = self._take(BLOCK)
        member = _read_head(head)
        _apply(member, said)
        return member, self._open(member.size) if member.type == tarfile.REGTYPE else None

    def _read_said(self, size: int) -> dict[str, bytes]:
        if size > MOST_SAID:
            raise LayerRefused("more is said of a member than fits it")
        return _read_records(self._take(size + -size % BLOCK)[:size])

    def _open(self, size: int) -> IO[bytes]:
        padding = -size % BLOCK
        if size <= SMALL:
            return io.BytesIO(self._take(size + padding)[:size])
        self._content, self._left = _Content(self.source, size), padding
        return io.BufferedReader(self._content, SMALL)

    def _skip(self) -> None:
        if self._content is not None:
            while self._content.read(SMALL):
                pass
            self._content = None
        self._take(self._left)
        self._left = 0

    def _take(self, size: int) -> bytes:
        data = self.source.read(size)
        if len(data) != size:
            raise LayerRefused("it is cut off")
        return data


class _Content(io.RawIOBase):
    """The content of a large member."""

    def __init__(self, source: IO[bytes], size: int) -> None:
        self._source = source
        self._left = size

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: "bytearray | memoryview") -> int:  # type: ignore[override]  # one buffer
        data = self._source.read(min(len(buffer), self._left))
        if not data and self._left and len(buffer):
            raise LayerRefused("it is cut off")
        buffer[: len(data)] = data
        self._left -= len(data)
        return len(data)


def _read_head(head: bytes) -> tarfile.TarInfo:
    sums = sum(head) - sum(head[148:156]) + 8 * ord(" ")
    if _read_number(head[148:156].rstrip(b" ")) != sums or head[257:265] != _MAGIC or head[345:346] != b"\0":
        raise LayerRefused("a head of it is none, or of another form")
    member = tarfile.TarInfo(_read_text(head[:100]))
    member.mode, member.uid = _read_number(head[100:108]), _read_number(head[108:116])
    member.gid, member.size = _read_number(head[116:124]), _read_number(head[124:136])
    member.mtime, member.type = _read_number(head[136:148]), head[156:157]
    member.linkname = _read_text(head[157:257])
    return member


def _read_number(field: bytes) -> int:
    digits = field[:-1]
    if field[-1:] != b"\0" or _NUMBER.fullmatch(digits) is None:
        raise LayerRefused("a number in a head of it is none")
    return int(digits, 8)


def _read_text(field: bytes) -> str:
    return field.partition(b"\0")[0].decode(errors="surrogateescape")


def _read_records(data: bytes) -> dict[str, bytes]:
    """What is said beside a head: `LENGTH NAME=VALUE`, a line each."""
    said, at = dict[str, bytes](), 0
    while at < len(data):
        length, space, _ = data[at : at + 8].partition(b" ")
        end = at + int(length) if length.isdigit() else 0
        name, equals, value = data[at + len(length) + 1 : end - 1].partition(b"=")
        is_whole = space and equals and end <= len(data) and data[end - 1 : end] == b"\n"
        if not is_whole or name.decode(errors="replace") in said:
            raise LayerRefused("what is said of a member can't be read")
        said[name.decode(errors="replace")] = value
        at = end
    return said


def _apply(member: tarfile.TarInfo, said: dict[str, bytes]) -> None:
    for name, value in said.items():
        text = value.decode(errors="surrogateescape")
        match name:
            case "path":
                member.name = text
            case "linkpath":
                member.linkname = text
            case "mtime":
                member.pax_headers = {"mtime": text}
            case "uid" | "gid" | "size":
                setattr(member, name, _read_decimal(text))
            case _:  # of no meaning here
                pass
    if member.type == tarfile.DIRTYPE:
        member.name = member.name.removesuffix("/")


def _read_decimal(text: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise LayerRefused("a number that is said of a member is none")
    return int(text)
