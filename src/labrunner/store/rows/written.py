"""Files that every run has from its first moment: opened, and held to the digests that `run.json` names."""

import hashlib
from pathlib import Path
from typing import BinaryIO

from labrunner.errors import DamagedRun, StoreError
from labrunner.files.durable import CHUNK, say, storing
from labrunner.records.run import RunRecord
from labrunner.store.layout import RunPaths


def open_file(path: Path) -> BinaryIO:
    """Open such a file for reading. Raises DamagedRun when it is gone."""
    try:
        return path.open("rb")
    except FileNotFoundError as error:
        raise DamagedRun(f"{path}: the file is gone; nothing was changed") from error
    except OSError as error:
        raise StoreError(f"reading {path}: {say(error)}") from error


def size_of(path: Path) -> int:
    """The size of such a file. Raises DamagedRun when it is gone."""
    with open_file(path) as file:
        return file.seek(0, 2)


def find_altered(path: Path, digest: str) -> str | None:
    """What is wrong with a file that was written once, against its digest; None when it is as it was."""
    found = _digest(path)
    return None if found == digest else f"its digest is {found}, but run.json says {digest}"


def refuse_altered(path: Path, digest: str) -> None:
    """Raise DamagedRun unless a file that was written once is as it was."""
    if (problem := find_altered(path, digest)) is not None:
        raise DamagedRun(f"{path}: {problem}; nothing was changed")


def refuse_altered_question(paths: RunPaths, record: RunRecord) -> None:
    """Raise DamagedRun unless everything that was written with `run.json` is as it was."""
    for path, digest in written_once(paths, record):
        refuse_altered(path, digest)


def written_once(paths: RunPaths, record: RunRecord) -> list[tuple[Path, str]]:
    """The files that `run.json` names by digest."""
    digests = record.digests
    files = [(paths.tasks, digests.tasks), (paths.schedule, digests.schedule)]
    return files if digests.earlier is None else [*files, (paths.earlier, digests.earlier)]


def _digest(path: Path) -> str:
    state = hashlib.sha256()
    with open_file(path) as file, storing("reading", path):
        while data := file.read(CHUNK):
            state.update(data)
    return f"sha256:{state.hexdigest()}"
