"""Transcripts of attempts that a crash ended: from the buffer's live events to files of the attempts.

Rule: written and synced before anybody drops the events. What an attempt wrote itself stays as it is.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from labrunner.errors import StoreError
from labrunner.files.durable import replace, sync_folder
from labrunner.store.buffering.buffer import read_live

TRANSCRIPT: Final = "transcript.jsonl"

LiveTranscripts = Mapping[str, Mapping[int, bytes]]
"""By trial and attempt: the lines so far."""


def read_transcripts(buffer: Path) -> LiveTranscripts:
    """What the buffer holds of attempts under way; nothing when it can't be read."""
    try:
        _, events = read_live(buffer)
    except StoreError:
        return {}
    found: dict[str, dict[int, bytes]] = defaultdict(lambda: defaultdict(bytes))
    for event in events:
        found[event.trial_id][event.attempt] += event.json + b"\n"
    return found


def rescue_transcripts(
    transcripts: LiveTranscripts, attempts: Iterable[tuple[str, int]], trial_folders: Path
) -> list[Path]:
    """Write the transcripts of these attempts into their folders; the files that were written."""
    written: list[Path] = []
    for trial_id, attempt in attempts:
        data = transcripts.get(trial_id, {}).get(attempt, b"")
        path = trial_folders / trial_id / str(attempt) / TRANSCRIPT
        if not data or path.exists():
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        replace(path, data, point="open.salvage")
        for folder in (path.parent.parent, trial_folders):
            sync_folder(folder)
        written.append(path)
    return written
