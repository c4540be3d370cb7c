"""Files that a trial left: found by digest among those that its records name, never by a path from outside.

What lies in a folder that was kept as a whole is found by the digest of its content, too.

Rules: the record's path is followed through no link. Text is cut to a window, and what is no text is shown
as the escapes that it becomes; whoever wants the bytes takes them as a download.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

from labrunner.errors import InputError
from labrunner.files.durable import say
from labrunner.files.layering.layernote import LAYER
from labrunner.files.strangers.hostile import open_below
from labrunner.records.completion import FileRef
from labrunner.records.rows import SlotRows
from labrunner.store.layout import RunPaths
from labrunner.view.left.ansi import style
from labrunner.view.left.keptfolders import find_timing, list_left
from labrunner.view.left.layertelling import find_in_layer

WINDOW: Final = 64 * 1024
"""Bytes of a text that are shown at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptFile:
    """A file of an attempt."""

    attempt: int
    ref: FileRef
    folder: Path
    copy: IO[bytes] | None = None
    """A copy of it, gone when closed, where it lies in a layer: which is too costly to be read again."""

    def open(self) -> IO[bytes]:
        """Open it, once. Raises InputError where it is gone, or something else stands in its place."""
        if self.copy is not None:
            return self.copy
        try:
            return open_below(self.folder, self.ref.path)
        except OSError as error:
            raise InputError("file", f"{self.ref.path} of attempt {self.attempt}: {say(error)}") from error


def list_kept(paths: RunPaths, rows: SlotRows) -> Iterator[KeptFile]:
    """Every file that a finished trial's records name: logs of each attempt, then what the last one left."""
    for attempt in rows.timing.attempts:
        folder = paths.attempt(rows.trial_id, attempt.attempt)
        yield from (KeptFile(attempt=attempt.attempt, ref=ref, folder=folder) for ref in attempt.logs)
    folder = paths.attempt(rows.trial_id, rows.attempt)
    yield from (KeptFile(attempt=rows.attempt, ref=ref, folder=folder) for ref in rows.trial.files)


def find_kept(paths: RunPaths, rows: SlotRows, attempt: int, digest: str) -> KeptFile:
    """The file of an attempt with this digest: one that records name, or one in a folder that was kept."""
    for kept in list_kept(paths, rows):
        if (kept.attempt, kept.ref.digest) == (attempt, digest):
            return kept
    folder = paths.attempt(rows.trial_id, attempt)
    for path, entry in list_left(folder, find_timing(rows, attempt)):
        if entry.content == digest:
            ref = FileRef(path=path, digest=digest, size=entry.size)
            return KeptFile(attempt=attempt, ref=ref, folder=folder)
    layer = folder / LAYER
    if layer.is_file() and (found := find_in_layer(layer, digest)) is not None:
        path, copy = found
        copy.seek(0, os.SEEK_END)
        ref = FileRef(path=path, digest=digest, size=copy.tell())
        copy.seek(0)
        return KeptFile(attempt=attempt, ref=ref, folder=folder, copy=copy)
    raise InputError("file", f"no file of attempt {attempt} of {rows.trial_id} has that digest")


def read_window(kept: KeptFile, end: int | None, most: int = WINDOW) -> dict[str, object]:
    """A window of a file, up to an offset or its end, in styled pieces; it begins with a line, if it can."""
    with kept.open() as file:
        size = file.seek(0, 2)
        stop = size if end is None else min(max(0, end), size)
        start = max(0, stop - most)
        file.seek(start)
        data = file.read(stop - start)
    if start > 0 and 0 <= (cut := data.find(b"\n")) < len(data) - 1:
        start, data = start + cut + 1, data[cut + 1 :]
    return {
        "path": kept.ref.path,
        "size": size,
        "start": start,
        "end": stop,
        "pieces": style(data.decode(errors="replace")),
    }
