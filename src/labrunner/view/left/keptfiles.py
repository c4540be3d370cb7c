"""Files that a trial left: found by digest among those that its records name, never by a path from outside.

What lies in a folder that was kept as a whole is found by the digest of its content, too.

Rules: the record's path is followed through no link. Text is cut to a window, and what is no text is shown
as the escapes that it becomes; whoever wants the bytes takes them as a download.
"""

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
    layer: Path | None = None
    """The layer that it lies in, where it is no file of its own."""

    def open(self) -> IO[bytes]:
        """Open it. Raises InputError where it is gone, or something else stands in its place."""
        if self.layer is not None:
            found = find_in_layer(self.layer, self.ref.digest)
            if found is None:
                raise InputError(
                    "file", f"{self.ref.path} of attempt {self.attempt}: it is not there any more"
                )
            return found[1]
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
        with found[1] as copy:
            ref = FileRef(path=found[0], digest=digest, size=copy.seek(0, 2))
        return KeptFile(attempt=attempt, ref=ref, folder=folder, layer=layer)
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
