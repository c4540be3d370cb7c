"""Members of a layer's archive, as bytes: a hundred thousand are spelled and read in seconds.

What is spelled is what `tarfile` writes in its PAX form, byte for byte. What is read is that form alone, and
nothing else that archives may hold: whatever a layer of ours would not say is refused.
"""

import tarfile
from collections.abc import Iterator, Mapping
from functools import cache
from typing import IO, Final

BLOCK: Final = tarfile.BLOCKSIZE
CHUNK: Final = 1 << 20
_MAGIC: Final = b"ustar\x0000".ljust(255, b"\0")
"""What follows the name that a link leads to, where no other field is used."""
_CHECKSUM: Final = b" " * 8
_CONSTANT: Final = sum(_MAGIC) + sum(_CHECKSUM)
_LONGEST: Final = 100
_OWNERS: Final = range(8**7)
_SIZES: Final = range(8**11)


def spell(member: tarfile.TarInfo, content: IO[bytes] | None = None) -> Iterator[bytes]:
    """A member as archives have it: head, content, padding. Raises OSError where the content is short."""
    head = spell_head(member)
    left = member.size if member.isreg() else 0
    padding = bytes(-left % BLOCK)
    while left:
        piece = content.read(min(CHUNK, left)) if content is not None else b""
        if not piece:
            raise OSError(f"{member.name}: {left} bytes are missing")
        left -= len(piece)
        yield head + piece if left else head + piece + padding
        head = b""
    if head:
        yield head


def spell_head(member: tarfile.TarInfo) -> bytes:
    """What stands before a member's content."""
    name = f"{member.name}/" if member.isdir() and not member.name.endswith("/") else member.name
    said = member.pax_headers
    if not (_is_plain(member, name) and _is_of_time(said)):
        return member.tobuf(tarfile.PAX_FORMAT, "utf-8", "surrogateescape")
    numbers = b"%07o\0%07o\0%07o\0%011o\0%011o\0" % (
        member.mode & 0o7777,
        member.uid,
        member.gid,
        member.size,
        int(member.mtime),
    )
    head = _make_head(name.encode(), numbers, member.type, member.linkname.encode())
    return _spell_time(said["mtime"]) + head if said else head


def _is_plain(member: tarfile.TarInfo, name: str) -> bool:
    """Whether all that is to be said of a member has room in its head."""
    is_short = len(name) <= _LONGEST and len(member.linkname) <= _LONGEST
    is_text = name.isascii() and member.linkname.isascii() and not (member.uname or member.gname)
    fits = member.uid in _OWNERS and member.gid in _OWNERS and member.size in _SIZES
    is_whole = isinstance(member.mtime, int) and member.mtime in _SIZES
    return is_short and is_text and fits and is_whole and not member.isdev()


def _is_of_time(said: Mapping[str, str]) -> bool:
    """Whether nothing but a time is said beside a head."""
    return not said or (
        said.keys() == {"mtime"} and len(said["mtime"]) < BLOCK // 8 and said["mtime"].isascii()
    )


def _make_head(name: bytes, numbers: bytes, kind: bytes, target: bytes = b"") -> bytes:
    total = sum(name) + sum(numbers) + sum(kind) + sum(target) + _CONSTANT
    parts = (name.ljust(_LONGEST, b"\0"), numbers, b"%06o\0 " % total, kind, target.ljust(_LONGEST, b"\0"))
    return b"".join((*parts, _MAGIC))


def _spell_time(time: str) -> bytes:
    said = time.encode()
    length = len(said) + len(b" mtime=\n") + 2  # of its own two digits
    record = b"%d mtime=%s\n" % (length, said)
    return _spell_time_head(length) + record.ljust(BLOCK, b"\0")


@cache
def _spell_time_head(length: int) -> bytes:
    numbers = b"%07o\0%07o\0%07o\0%011o\0%011o\0" % (0, 0, 0, length, 0)
    return _make_head(b"././@PaxHeader", numbers, tarfile.XHDTYPE)
