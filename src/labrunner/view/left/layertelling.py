"""Work in a folder of an image, as its layer has it: what was written, and what was removed.

Rules: a layer is read as a stranger's, once, from its beginning, and not further than a page can wait for.
"""

import hashlib
import stat
import tarfile
import tempfile
from pathlib import Path
from typing import IO, Final

from labrunner.errors import InputError
from labrunner.files.layering.layerreading import LayerReader, LayerRefused, open_layer
from labrunner.files.strangers.sealing import TreeEntry
from labrunner.view.left.changetelling import LONGEST_TEXT, MOST_CHANGES, Change, ChangeTeller, Side

MOST_READ: Final = 256 * 1024 * 1024
"""Bytes of contents that are gone through."""
CHUNK: Final = 1 << 20
_NOTHING: Final = Side(folder=Path(), entry=None)


def tell_layer(path: Path, teller: ChangeTeller) -> dict[str, object]:
    """What a layer holds, for a page."""
    try:
        with open_layer(path) as reader:
            changes, left_out = _list(reader, teller)
            return {
                "folder": reader.head.folder,
                "changes": changes,
                "left_out": left_out,
                "note": "a folder of the image: what was there before is not known here",
            }
    except FileNotFoundError:
        return {"folder": path.name, "changes": (), "note": "it is not there any more"}
    except (LayerRefused, OSError) as error:
        return {"folder": path.name, "changes": (), "note": f"it can't be read: {error}"}


def find_in_layer(path: Path, digest: str) -> tuple[str, IO[bytes]] | None:
    """The file of a layer whose content has this digest, with its path: a copy that is gone when closed."""
    try:
        with open_layer(path) as reader:
            return _search(reader, digest)
    except (LayerRefused, OSError) as error:
        raise InputError("file", f"{path.name} can't be read: {error}") from error


def _search(reader: LayerReader, digest: str) -> tuple[str, IO[bytes]] | None:
    for member, content in reader.entries():
        if content is None:
            continue
        copy = tempfile.TemporaryFile()  # noqa: SIM115 - whoever asked closes it
        if _copy(content, copy) == digest:
            copy.seek(0)
            return f"{reader.head.folder}/{member.name}", copy
        copy.close()
    return None


def _list(reader: LayerReader, teller: ChangeTeller) -> tuple[list[Change], int]:
    """What is told of a layer, and how much of it is not."""
    changes = [Change(path=told or ".", how="deleted", kind="file") for told in reader.head.removed]
    left_out, read = max(0, len(changes) - MOST_CHANGES), 0
    changes = changes[:MOST_CHANGES]
    for member, content in reader.entries():
        if member.isdir():
            continue
        if len(changes) >= MOST_CHANGES or read > MOST_READ:
            left_out += 1
            continue
        read += member.size
        if (told := teller.tell(_NOTHING, _side_of(member, content), "written")) is not None:
            changes.append(told)
    return changes, left_out


def _side_of(member: tarfile.TarInfo, content: IO[bytes] | None) -> Side:
    if content is None:
        kind = "link" if member.issym() or member.islnk() else "fifo"
        return Side(folder=Path(), entry=TreeEntry(path=member.name, kind=kind, content=member.linkname))
    start = content.read(LONGEST_TEXT + 1)
    state = hashlib.sha256(start)
    while piece := content.read(CHUNK):
        state.update(piece)
    kind = "program" if member.mode & stat.S_IXUSR else "file"
    digest = f"sha256:{state.hexdigest()}"
    entry = TreeEntry(path=member.name, kind=kind, content=digest, size=member.size)
    return Side(folder=Path(), entry=entry, data=start)


def _copy(content: IO[bytes], target: IO[bytes]) -> str:
    state = hashlib.sha256()
    while piece := content.read(CHUNK):
        state.update(piece)
        target.write(piece)
    return f"sha256:{state.hexdigest()}"
