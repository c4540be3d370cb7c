"""Taking results of earlier runs over into a new one: rows rewritten, evidence linked, nothing run.

Rules: the source is only read. A trial's files lie in the new run, synced, before its rows are finished;
they are hard links where the file system can, copies elsewhere. Goes on beside the trials that do run.
"""

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import msgspec

from labrunner.files.durable import storing, sync_folder
from labrunner.files.strangers.copying import copy_tree
from labrunner.records.encoding.ids import make_token
from labrunner.records.rows import SlotRows, slot_commit_id
from labrunner.runner.reuse.reuse import ReusePlan, SlotFinder
from labrunner.store.layout import RunPaths
from labrunner.store.reading.run_state import iter_finished
from labrunner.store.writing.writer import RunWriter

BATCH: Final = 128


class CarryOver:
    """Brings the results that a plan reuses into a new run."""

    def __init__(self, plan: ReusePlan, finder: SlotFinder, paths: RunPaths, run_id: str) -> None:
        """Take the plan and the new run; nothing is done before `carry`."""
        self._plan = plan
        self._finder = finder
        self._paths = paths
        self._run_id = run_id

    async def carry(self, writer: RunWriter, on_finished: Callable[[SlotRows], None]) -> None:
        """Take over everything that the new run does not have yet."""
        rows = self.find_rows(writer.is_finished)
        while batch := await asyncio.to_thread(self._take, rows):
            async with asyncio.TaskGroup() as group:
                for slot, _ in batch:
                    group.create_task(_finish(writer, slot, on_finished))

    def _take(self, rows: Iterator[tuple[SlotRows, Path]]) -> list[tuple[SlotRows, Path]]:
        """Link the evidence of the next few trials, and make the new names durable."""
        batch: list[tuple[SlotRows, Path]] = []
        for slot, source in rows:
            batch.append((slot, source))
            if len(batch) == BATCH:
                break
        for slot, source in batch:
            link_tree(source, self._paths.trial(slot.trial_id))
        if batch:
            sync_folder(self._paths.trial_folders)
        return batch

    def find_rows(self, is_finished: Callable[[int], bool]) -> Iterator[tuple[SlotRows, Path]]:
        """What is still to be taken over: rows as the new run has them, and where their evidence lies."""
        for number, source in enumerate(self._plan.sources):
            wanted = self._plan.slots_from(number)
            if not wanted:
                continue
            for rows in iter_finished(source.paths):
                idx = self._finder.find(rows.trial)
                if idx in wanted and not is_finished(idx):
                    is_edited = any(old != new for old, new in self._finder.digests(rows.trial, idx))
                    moved = rewrite(
                        rows, idx, self._finder.experiment.digest, self._run_id, is_edited=is_edited
                    )
                    yield moved, source.paths.trial(rows.trial_id)


def rewrite(
    rows: SlotRows, idx: int, experiment_digest: str, run_id: str, *, is_edited: bool | None = None
) -> SlotRows:
    """The same result as rows of another run, at another place in its schedule.

    `is_edited` tells whether the code that made it is another one than the new run's; None: as it was.
    """
    edited = rows.timing.edited if is_edited is None else is_edited
    commit_id = slot_commit_id(experiment_digest, rows.trial_id, rows.attempt)
    ids = msgspec.structs.replace(rows.trial.ids, run_id=run_id)
    same = {"schedule_idx": idx, "ids": ids}
    named = {**same, "slot_commit_id": commit_id}
    return SlotRows(
        schedule_idx=idx,
        trial_id=rows.trial_id,
        attempt=rows.attempt,
        slot_commit_id=commit_id,
        predictions=tuple(msgspec.structs.replace(row, **named) for row in rows.predictions),
        scores=tuple(msgspec.structs.replace(row, **named) for row in rows.scores),
        trial=msgspec.structs.replace(rows.trial, **named),
        timing=msgspec.structs.replace(rows.timing, **same, edited=edited),
    )


async def _finish(writer: RunWriter, slot: SlotRows, on_finished: Callable[[SlotRows], None]) -> None:
    if await writer.finish(slot, token=make_token()):
        on_finished(slot)


def link_tree(source: Path, target: Path) -> None:
    """Make `target` hold what `source` holds, durably, files as hard links where possible."""
    if source.is_dir():
        with storing("taking over files into", target):
            copy_tree(source, target, shares_files=True, syncs=True)
