"""Reading single records of a run's directory: strictly, and never of a version that is not known."""

from pathlib import Path
from typing import TypeVar

import msgspec

from labrunner.errors import DamagedRun, StoreError
from labrunner.records.run import CrashRecord, RunRecord, StatusRecord
from labrunner.store.durable import say
from labrunner.store.layout import RunPaths

Record = TypeVar("Record", bound=msgspec.Struct)


class _Versioned(msgspec.Struct):
    schema_version: str


def read_run(paths: RunPaths) -> RunRecord:
    """Read `run.json`."""
    data = _read(paths.run)
    if data is None:
        raise StoreError(f"reading {paths.run}: there is no such file, so this is no run's directory")
    return decode(paths.run, data, RunRecord, "run_v1")


def read_status(paths: RunPaths) -> StatusRecord | None:
    """Read `status.json`; None when the run's first owner died before writing one."""
    data = _read(paths.status)
    return None if data is None else decode(paths.status, data, StatusRecord, "status_v1")


def read_crashes(paths: RunPaths) -> list[CrashRecord]:
    """Read the notes of all crashes that were found, the oldest first."""
    found, number = [], 1
    while (data := _read(paths.crash(number))) is not None:
        found.append(decode(paths.crash(number), data, CrashRecord, "crash_v1"))
        number += 1
    return found


def decode(path: Path, data: bytes, kind: type[Record], version: str) -> Record:
    """Decode a record, refusing another version with a sentence."""
    try:
        found = msgspec.json.decode(data, type=_Versioned).schema_version
        if found == version:
            return msgspec.json.decode(data, type=kind)
    except (ValueError, RecursionError) as error:
        raise DamagedRun(f"reading {path}: not a {version}: {error}") from error
    raise StoreError(
        f"reading {path}: its schema_version is {found!r}, and this program knows {version!r}; "
        "use the labrunner that wrote it, or a newer one"
    )


def _read(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StoreError(f"reading {path}: {say(error)}") from error
