"""Reading committed rows by the journal's offsets, never beyond them."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import BinaryIO

from labrunner.errors import DamagedRun, StoreError
from labrunner.files.durable import say, storing
from labrunner.records.commit import CommitLine
from labrunner.records.rows import MAX_ROW_BYTES, have_digest, lines_digest
from labrunner.store.layout import RunPaths
from labrunner.store.rows.journal import Placed
from labrunner.store.rows.written import open_file


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotLines:
    """A committed slot's rows as they lie in the files, line ends included."""

    predictions: list[bytes]
    scores: list[bytes]
    trials: list[bytes]

    def has_digest(self, run_id: str, digest: str) -> bool:
        """Whether these are rows of the run with this digest."""
        return have_digest((*self.predictions, *self.scores, *self.trials), run_id, digest)

    def digest(self, run_id: str) -> str | None:
        """Digest of the rows; None when they are no rows of this run."""
        try:
            return lines_digest((*self.predictions, *self.scores, *self.trials), run_id)
        except (ValueError, RecursionError):
            return None


class RowFiles:
    """A run's row files, open for reading."""

    def __init__(self, predictions: BinaryIO, scores: BinaryIO, trials: BinaryIO) -> None:
        """Take over open files; see `open_rows`."""
        self._predictions = predictions
        self._scores = scores
        self._trials = trials

    def read(self, slot: Placed) -> SlotLines:
        """Read a slot's rows. Raises DamagedRun when they are not there."""
        starts, ends, rows, idx = slot.starts, slot.line.ends, slot.line.rows, slot.line.schedule_idx
        return SlotLines(
            predictions=_read(self._predictions, starts.predictions, ends.predictions, rows.predictions, idx),
            scores=_read(self._scores, starts.scores, ends.scores, rows.scores, idx),
            trials=_read(self._trials, starts.trials, ends.trials, rows.trials, idx),
        )

    def read_back(self, line: CommitLine) -> SlotLines:
        """Read a slot's rows from their ends alone: where they begin is told by another line."""
        ends, rows = line.ends, line.rows
        return SlotLines(
            predictions=_read_back(self._predictions, ends.predictions, rows.predictions),
            scores=_read_back(self._scores, ends.scores, rows.scores),
            trials=_read_back(self._trials, ends.trials, rows.trials),
        )

    def check(self, slot: Placed) -> SlotLines:
        """Read a slot's rows; raise DamagedRun unless they are those that its commit published."""
        lines = self.read(slot)
        if not lines.has_digest(slot.line.run_id, slot.line.rows_digest):
            raise DamagedRun(
                f"{self._trials.name}: the rows of slot {slot.line.schedule_idx} ({slot.line.trial_id}) "
                "here, in scores.jsonl or predictions.jsonl are not those that were committed; "
                "nothing was changed"
            )
        return lines


@contextmanager
def open_rows(paths: RunPaths) -> Iterator[RowFiles]:
    """Open the row files of a run."""
    with ExitStack() as stack:
        yield RowFiles(
            *(
                stack.enter_context(open_file(path))
                for path in (paths.predictions, paths.scores, paths.trials)
            )
        )


def split_lines(data: bytes) -> list[bytes]:
    """Lines with their ends; the last one may lack it."""
    # Not splitlines: that also cuts at a bare carriage return.
    *whole, last = data.split(b"\n")
    lines = [line + b"\n" for line in whole]
    return [*lines, last] if last else lines


def _read(file: BinaryIO, start: int, end: int, count: int, idx: int) -> list[bytes]:
    if start == end and count == 0:
        return []
    try:
        file.seek(start)
        data = file.read(max(0, end - start))
    except OSError as error:  # not `storing`: every row comes through here
        raise StoreError(f"reading {file.name}: {say(error)}") from error
    lines = [data] if data.find(b"\n") == len(data) - 1 else split_lines(data)
    if len(data) != end - start or len(lines) != count or not data.endswith(b"\n"):
        raise DamagedRun(
            f"{file.name}: bytes {start} to {end} should hold {count} rows of slot {idx}, and do not; "
            "nothing was changed"
        )
    return lines


def _read_back(file: BinaryIO, end: int, count: int) -> list[bytes]:
    if count == 0:
        return []
    start = max(0, end - count * MAX_ROW_BYTES)
    with storing("reading", file.name):
        file.seek(start)
        lines = split_lines(file.read(end - start))
    if len(lines) < count or not lines[-1].endswith(b"\n"):
        raise DamagedRun(f"{file.name}: {count} rows should end at byte {end}, and do not")
    return lines[-count:]
