"""A layer without secrets: written anew, each secret covered in place by as many bytes.

Names, targets of links and contents are searched, paths as a whole. Two names that are the same once they are
covered are told apart by a number.
"""

import io
import os
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Final

import msgspec

from labrunner.files.layering.layerfile import read_path, spell_path, write_layer
from labrunner.files.layering.layerreading import Entry, LayerReader, open_layer
from labrunner.files.layering.members import CHUNK
from labrunner.files.strangers.masking import Masker

NO_LIMIT: Final = (1 << 62, 1 << 62)


def cover_layer(path: Path, masker: Masker) -> int:
    """Cover every secret in a layer; how many there were. Raises LayerRefused, OSError."""
    parts = _Parts(masker)
    count = sum(1 for _ in _find(path, masker, parts))
    if not count:
        return 0
    with open_layer(path) as reader:
        removed = tuple(spell_path(_cover_text(read_path(told), masker)) for told in reader.head.removed)
        head = msgspec.structs.replace(reader.head, removed=removed)
        with write_layer(path, head, NO_LIMIT) as writer:
            for member, content in _covered(reader, masker, parts):
                writer.add(member, content)
    return count


def _find(path: Path, masker: Masker, parts: "_Parts") -> Iterator[int]:
    """One for each secret."""
    with open_layer(path) as reader:
        for told in reader.head.removed:
            yield from masker.cover(os.fsencode(read_path(told)))
        for member, content in reader.entries():
            yield from parts.search(os.fsencode(member.name))
            yield from masker.cover(os.fsencode(member.linkname)) if member.issym() else ()
            yield from range(_count(content, masker)) if content is not None else ()


def _count(content: IO[bytes], masker: Masker) -> int:
    covering = Covering(content, masker)
    while covering.read(CHUNK):
        pass
    return covering.count


def _covered(reader: LayerReader, masker: Masker, parts: "_Parts") -> Iterator[Entry]:
    names = _Names(parts)
    for member, content in reader.entries():
        member.name = names.cover(member.name)
        if member.islnk():
            member.linkname = names.cover(member.linkname)
        elif member.issym():
            member.linkname = _cover_text(member.linkname, masker)
        yield member, None if content is None else io.BufferedReader(Covering(content, masker))


class _Parts:
    """Names on paths that are covered: a secret may lie across several, so whole paths are searched."""

    def __init__(self, masker: Masker) -> None:
        self._masker = masker
        self._covered: dict[bytes, bytes] = {}
        """A path's last name without what is secret in it, or in a path that goes on from there."""

    def search(self, path: bytes) -> Iterator[int]:
        """Cover what is secret in a path; one for each secret."""
        covers = self._masker.cover(path)
        changed = bytearray(path)
        for at, cover in covers.items():
            changed[at : at + len(cover)] = cover.replace(b"/", b"*")
        start = 0
        for name in path.split(b"/") if covers else ():
            end = start + len(name)
            before, now = self._covered.get(path[:end], name), changed[start:end]
            if now != name:
                merged = (
                    new if new != old else kept for new, old, kept in zip(now, name, before, strict=True)
                )
                self._covered[path[:end]] = bytes(merged)
            start = end + 1
        yield from covers

    def cover(self, path: str) -> str:
        """The last name of a path, covered."""
        return os.fsdecode(self._covered.get(os.fsencode(path), os.fsencode(path).rpartition(b"/")[2]))


class _Names:
    """Paths without secrets, each once."""

    def __init__(self, parts: _Parts) -> None:
        self._parts = parts
        self._given: dict[str, str] = {"": ""}
        self._taken: set[str] = set()

    def cover(self, path: str) -> str:
        """A path's own other name; that of its folder before it."""
        if path not in self._given:
            folder = path.rpartition("/")[0]
            above, hidden, number = self.cover(folder), self._parts.cover(path), 1
            place = free = f"{above}/{hidden}" if above else hidden
            while free in self._taken:
                number += 1
                free = f"{place}-{number}"
            self._taken.add(free)
            self._given[path] = free
        return self._given[path]


def _cover_text(text: str, masker: Masker) -> str:
    changed = bytearray(os.fsencode(text))
    for at, cover in masker.cover(bytes(changed)).items():
        changed[at : at + len(cover)] = cover
    return os.fsdecode(bytes(changed))


class Covering(io.RawIOBase):
    """A content in which secrets are covered as it is read, also those that lie across two reads."""

    def __init__(self, content: IO[bytes], masker: Masker) -> None:
        """Take a content; nothing is read yet."""
        self._content = content
        self._masker = masker
        self._ready = b""
        self._held = b""
        self._is_over = False
        self.count = 0

    def readable(self) -> bool:
        """It is only read."""
        return True

    def readinto(self, buffer: "bytearray | memoryview") -> int:  # type: ignore[override]  # one buffer
        """Give what is sure to hold no beginning of a secret."""
        while not self._ready and not self._is_over:
            self._advance()
        given, self._ready = self._ready[: len(buffer)], self._ready[len(buffer) :]
        buffer[: len(given)] = given
        return len(given)

    def _advance(self) -> None:
        piece = self._content.read(CHUNK)
        self._is_over = not piece
        data = bytearray(self._held + piece)
        covers = self._masker.cover(bytes(data))
        for at, cover in covers.items():
            data[at : at + len(cover)] = cover
        self.count += len(covers)
        keep = 0 if self._is_over else self._masker.longest - 1
        split = max(0, len(data) - keep)
        self._ready, self._held = bytes(data[:split]), bytes(data[split:])
