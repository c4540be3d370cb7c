"""What the gateway recorded beside attempts of a run: calls to models, what was said, connections to hosts.

Rules: files of a finished attempt are what its row says, to the byte, or the run is damaged; those of an
attempt under way, or that was cut off, are read as far as they are whole. No link is followed.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec

from labrunner.errors import DamagedRun
from labrunner.files.durable import say
from labrunner.files.strangers.hostile import open_plain
from labrunner.gateway.recording.calljournal import BODIES, CALLS
from labrunner.gateway.recording.doorjournal import DOORS
from labrunner.records.completion import FileRef
from labrunner.records.encoding import canonical
from labrunner.records.facts.door_event import DoorEvent
from labrunner.records.facts.model_call import BodyRow, CallRow
from labrunner.records.facts.transcript_events import read_events
from labrunner.store.buffering.transcripts import TRANSCRIPT
from labrunner.store.layout import RunPaths
from labrunner.store.reading.events import iter_attempt_logs
from labrunner.store.reading.survey import survey

_Row = TypeVar("_Row", CallRow, BodyRow, DoorEvent)
_Read = Callable[[Path, Sequence[FileRef] | None], Sequence[CallRow | DoorEvent]]
_ATTEMPT: Final = re.compile(r"([1-9][0-9]*)(\.cut-[1-9][0-9]*)?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """One row, and where it was found."""

    run_id: str
    attempt: str
    """The attempt's folder: its number, with `.cut-1` and so on where it was cut off."""
    row: CallRow | DoorEvent


def read_attempt_calls(folder: Path, logs: Sequence[FileRef] | None = None) -> list[CallRow]:
    """Calls of one attempt in the order in which they arrived; `logs` are those that its row names.

    Raises DamagedRun.
    """
    return sorted(_read(folder / CALLS, logs, CallRow), key=lambda call: call.ordinal)


def read_attempt_bodies(folder: Path, logs: Sequence[FileRef] | None = None) -> dict[str, BodyRow]:
    """What was said in the calls of one attempt, by digest. Raises DamagedRun."""
    return {body.digest: body for body in _read(folder / BODIES, logs, BodyRow)}


def read_attempt_transcript(folder: Path, logs: Sequence[FileRef]) -> list[dict[str, Any]]:
    """The events of a Python task's finished attempt. Raises DamagedRun."""
    path = folder / TRANSCRIPT
    ref = next((ref for ref in logs if ref.path == path.name), None)
    return read_events(b"".join(line + b"\n" for line in _read_lines(path, ref))) if ref else []


def read_attempt_doors(folder: Path, logs: Sequence[FileRef] | None = None) -> list[DoorEvent]:
    """What happened at one attempt's door to hosts, in the order in which it ended. Raises DamagedRun."""
    return list(_read(folder / DOORS, logs, DoorEvent))


def read_all_calls(paths: RunPaths) -> Iterator[Recorded]:
    """Calls of all attempts of a run: of finished ones, then of all others that left some."""
    return _read_all(paths, read_attempt_calls)


def read_all_doors(paths: RunPaths) -> Iterator[Recorded]:
    """The same for what happened at doors to hosts."""
    return _read_all(paths, read_attempt_doors)


def _read_all(paths: RunPaths, read: _Read) -> Iterator[Recorded]:
    finished: set[tuple[str, str]] = set()
    with survey(paths) as seen:
        for trial_id, attempt, logs in iter_attempt_logs(seen):
            finished.add((trial_id, str(attempt)))
            rows = read(paths.attempt(trial_id, attempt), logs)
            yield from (Recorded(run_id=seen.run_id, attempt=str(attempt), row=row) for row in rows)
    for trial in _iter_folders(paths.trial_folders):
        for folder in _iter_folders(trial):
            if (trial.name, folder.name) not in finished and _ATTEMPT.fullmatch(folder.name):
                rows = read(folder, None)
                yield from (Recorded(run_id=seen.run_id, attempt=folder.name, row=row) for row in rows)


def _iter_folders(folder: Path) -> list[Path]:
    try:
        return sorted(path for path in folder.iterdir() if path.is_dir() and not path.is_symlink())
    except FileNotFoundError:
        return []


def _read(path: Path, logs: Sequence[FileRef] | None, kind: type[_Row]) -> Iterator[_Row]:
    ref = next((ref for ref in logs or () if ref.path == path.name), None)
    if logs is not None and ref is None:
        return  # there was nothing to record
    decoder = msgspec.json.Decoder(kind)
    for number, line in enumerate(_read_lines(path, ref), 1):
        try:
            yield decoder.decode(line)
        except (msgspec.DecodeError, RecursionError) as error:
            raise DamagedRun(f"reading {path}, line {number}: {error}; try: lab verify") from error


def _read_lines(path: Path, ref: FileRef | None) -> list[bytes]:
    try:
        with open_plain(path) as file:
            data = file.read()
    except FileNotFoundError as error:
        if ref is None:
            return []
        raise DamagedRun(f"{path}: the file is gone; try: lab verify") from error
    except OSError as error:
        raise DamagedRun(f"reading {path}: {say(error)}; try: lab verify") from error
    if ref is not None and canonical.digest_bytes(data) != ref.digest:
        raise DamagedRun(f"{path}: it is not what its row says; try: lab verify")
    return data[: data.rfind(b"\n") + 1].split(b"\n")[:-1]
