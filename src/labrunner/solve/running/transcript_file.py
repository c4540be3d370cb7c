"""Where transcripts, and scores too long for rows, become files of their attempts, durably.

Rule: once `store` has returned, the files and the folders on the way to them are on stable storage. Many are
stored at once, each in a thread of its own: syncs that wait together are carried out together.
"""

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from labrunner.errors import SandboxFailed
from labrunner.files.descriptors import write_file
from labrunner.files.durable import sync_folder
from labrunner.records.completion import FileRef
from labrunner.records.encoding import canonical
from labrunner.store.buffering.transcripts import TRANSCRIPT
from labrunner.trial.preparation import set_aside


def store(folder: Path, texts: Mapping[str, bytes], *, is_new: bool) -> list[FileRef]:
    """Store what an attempt leaves in its folder, by name.

    `is_new`: nobody has made the folder yet; one that a cut-off try left is set aside.
    """
    # Plain strings: this is done for every sample, and a Path costs more than most system calls.
    place = str(folder)
    trial = os.path.dirname(place)  # noqa: PTH120 - see above
    with SandboxFailed.during("transcript", f"storing the transcript in {place}"):
        if is_new:
            _make(folder, place, trial)
        for name, data in texts.items():
            write_file(f"{place}/{name}", data, rights=0o600)
        for each in (place, trial, os.path.dirname(trial)):  # noqa: PTH120 - see above
            sync_folder(each)
    return [
        FileRef(path=name, digest=canonical.digest_bytes(data), size=len(data))
        for name, data in texts.items()
    ]


def leave(folder: Path, data: bytes) -> None:
    """Leave the transcript of an attempt that is being ended: evidence, not a result, so not synced."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / TRANSCRIPT).write_bytes(data)


def _make(folder: Path, place: str, trial: str) -> None:
    with suppress(FileExistsError):
        os.mkdir(trial)  # noqa: PTH102 - see above
    try:
        os.mkdir(place)  # noqa: PTH102 - see above
    except FileExistsError:
        set_aside(folder)
        folder.mkdir()
