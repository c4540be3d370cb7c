"""Attempts that a crash, a stop or an outage cut off: their folders and transcripts stay as evidence."""

import asyncio
import os
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

from labrunner.errors import DamagedRun
from labrunner.files.strangers.masking import make_masker
from labrunner.gateway.process.place import GatewayPlace
from labrunner.gateway.recording.calljournal import read_calls, settle_calls
from labrunner.gateway.recording.doorjournal import settle_doors
from labrunner.records.facts.call_usage import sum_calls
from labrunner.records.facts.model_call import CallRow
from labrunner.store.buffering.attempts import AttemptNote
from labrunner.store.buffering.transcripts import read_transcripts, rescue_transcripts
from labrunner.store.layout import RunPaths
from labrunner.store.writing.writer import RunWriter
from labrunner.trial.collecting.cut_off import redact_cut_off
from labrunner.trial.door_tokens import PHASES, name_tokens


async def leave_as_evidence(cut_off: Sequence[AttemptNote], paths: RunPaths, writer: RunWriter) -> None:
    """Give up attempts that nobody can take up, once what they said so far lies in their folders."""
    if not cut_off:
        return
    lost = [(note.trial_id, note.attempt) for note in cut_off]
    await asyncio.to_thread(_mask_tokens, cut_off, paths)
    live = await asyncio.to_thread(read_transcripts, paths.buffer)
    await asyncio.to_thread(rescue_transcripts, live, lost, paths.trial_folders)
    for note in cut_off:
        await writer.note_cut_off(note.token)


def settle_cut_off(cut_off: Sequence[AttemptNote], paths: RunPaths) -> None:
    """Give what was under way its rows, where the gateway died, too: one that lives does it itself.

    Raises StoreError.
    """
    if not cut_off or not paths.gateway.is_dir() or (lock := GatewayPlace(paths.gateway).lock()) is None:
        return
    try:
        for note in cut_off:
            with suppress(DamagedRun):  # what can't be read tells nothing
                settle_calls(paths.attempt(note.trial_id, note.attempt))
                settle_doors(paths.attempt(note.trial_id, note.attempt))
    finally:
        os.close(lock)


def _mask_tokens(cut_off: Sequence[AttemptNote], paths: RunPaths) -> None:
    """Mask the tokens of attempts while they are known: whoever tries their trials anew has others."""
    if not paths.gateway.is_dir():
        return
    for note in cut_off:
        folder = paths.attempt(note.trial_id, note.attempt)
        if folder.is_dir():
            redact_cut_off(folder, make_masker(name_tokens(note.token, PHASES)))


class CutOffs:
    """Finds folders of attempts that were set aside: where a trial had a folder before, or is tried anew.

    The others are not looked at: that would have the loop wait for a disk, for every trial.
    """

    def __init__(self, paths: RunPaths) -> None:
        """See which trials have folders, before this sitting makes any."""
        self._folder = paths.trial_folders
        self._suspects = set(_names(self._folder))

    def expect(self, trial_id: str) -> None:
        """A trial is tried as if it had not been: what it left is going to be set aside."""
        self._suspects.add(trial_id)

    def find(self, trial_id: str) -> tuple[str, ...]:
        """Those of one trial."""
        if trial_id not in self._suspects:
            return ()
        return tuple(sorted(name for name in _names(self._folder / trial_id) if ".cut-" in name))


def sum_cut_off(folders: Iterable[Path]) -> dict[str, float | int]:
    """What the recorded calls of attempts used that came to no end; what can't be read tells nothing."""
    calls: list[CallRow] = []
    for folder in folders:
        with suppress(DamagedRun):
            calls += list(read_calls(folder))
    return sum_calls(calls)


def _names(folder: Path) -> list[str]:
    try:
        return [each.name for each in folder.iterdir()]
    except FileNotFoundError:
        return []
