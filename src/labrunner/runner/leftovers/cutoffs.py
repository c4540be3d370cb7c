"""Attempts that a crash, a stop or an outage cut off: their folders and transcripts stay as evidence."""

import asyncio
import os
from collections.abc import Sequence

from labrunner.store.buffering.attempts import AttemptNote
from labrunner.store.buffering.transcripts import read_transcripts, rescue_transcripts
from labrunner.store.layout import RunPaths
from labrunner.store.writing.writer import RunWriter


async def let_go(cut_off: Sequence[AttemptNote], paths: RunPaths, writer: RunWriter) -> None:
    """Let go of attempts that nobody can take up, once what they said so far lies in their folders."""
    if not cut_off:
        return
    lost = [(note.trial_id, note.attempt) for note in cut_off]
    live = await asyncio.to_thread(read_transcripts, paths.buffer)
    await asyncio.to_thread(rescue_transcripts, live, lost, paths.trial_folders)
    for note in cut_off:
        await writer.note_cut_off(note.token)


class CutOffs:
    """Finds folders of attempts that were set aside; asked for every trial, so that paths are texts here."""

    def __init__(self, paths: RunPaths) -> None:
        """Take the run."""
        self._folder = str(paths.trial_folders)

    def find(self, trial_id: str) -> tuple[str, ...]:
        """Those of one trial."""
        try:
            names = os.listdir(f"{self._folder}/{trial_id}")  # noqa: PTH208 - as above
        except FileNotFoundError:
            return ()
        return tuple(sorted(name for name in names if ".cut-" in name))
