"""Work in a folder of an image, as its layer has it: what was written, and what was removed.

Rules: a layer is read as a stranger's, once, from its beginning, and not further than a page can wait for.
"""

import hashlib
import stat
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Final

from labrunner.errors import InputError
from labrunner.files.layering.layerreading import Entry, LayerReader, open_layer
from labrunner.files.layering.memberreading import LayerRefused
from labrunner.files.strangers.sealing import TreeEntry
from labrunner.view.left.changetelling import LONGEST_TEXT, MOST_CHANGES, Change, ChangeTeller, Side

MOST_READ: Final = 256 * 1024 * 1024
"""Bytes of contents that are gone through; what follows is neither told, nor counted, nor found."""
LEAST: Final = 4096
"""What each entry is taken for, at least."""
CHUNK: Final = 1 << 20
_NOTHING: Final = Side(folder=Path(), entry=None)


def tell_layer(path: Path, teller: ChangeTeller) -> dict[str, object]:
    """What a layer holds, for a page."""
    try:
        with open_layer(path) as reader:
            changes, has_more = _list(reader, teller)
            return {
                "folder": reader.head.folder,
                "changes": changes,
                "has_more": has_more,
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
    for member, content in filter(None, _go_through(reader)):
        if content is None:
            continue
        # In memory as far as that goes: most members are small, and not the one that is sought.
        copy = tempfile.SpooledTemporaryFile(max_size=CHUNK)  # noqa: SIM115 - whoever asked closes it
        if _copy(content, copy) == digest:
            copy.seek(0)
            return f"{reader.head.folder}/{member.name}", copy
        copy.close()
    return None


def _list(reader: LayerReader, teller: ChangeTeller) -> tuple[list[Change], bool]:
    """What is told of a layer, and whether there is more: to count that, it would have to be read."""
    removed = reader.head.removed
    changes = [Change(path=told or ".", how="deleted", kind="file") for told in removed[:MOST_CHANGES]]
    if len(removed) > MOST_CHANGES:
        return changes, True
    for entry in _go_through(reader):
        if entry is None or len(changes) == MOST_CHANGES:
            return changes, True
        if (told := teller.tell(_NOTHING, _side_of(*entry), "written")) is not None:
            changes.append(told)
    return changes, False


def _go_through(reader: LayerReader) -> Iterator[Entry | None]:
    """All but folders, in order; at last None where what follows is too much for a page to wait for."""
    left = MOST_READ
    for member, content in reader.entries():
        left -= max(LEAST, member.size)
        if left < 0:
            yield None
            return
        if not member.isdir():
            yield member, content


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
