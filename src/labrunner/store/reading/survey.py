"""Going through a whole run fast: rows in large pieces, bounded by the journal's last sound line.

Rules: the buffer's snapshot is taken before the journal is read, so that no finished slot falls between the
two. The journal's end is enough to bound the other files; whether every line before it is sound is for
`lab verify` to say. Memory does not grow with what is committed.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Final, TypeVar

import msgspec

from labrunner.errors import DamagedRun
from labrunner.files.durable import storing
from labrunner.records.commit import NO_ROWS, EndOffsets
from labrunner.records.glance import SlotGlance, TimingGlance, TrialGlance
from labrunner.store.buffering.buffer import BufferedSlot
from labrunner.store.layout import RunPaths
from labrunner.store.reading.run_state import iter_beyond, open_waiting
from labrunner.store.rows.journal import read_last_line
from labrunner.store.rows.single_records import read_run
from labrunner.store.rows.witness import find_floor, refuse_shortened

PIECE_BYTES: Final = 256 * 1024
"""Small enough for what is decoded from a piece to stay in the processor's cache: larger ones take longer."""

Row = TypeVar("Row")
_trials: Final = msgspec.json.Decoder(TrialGlance)
_timings: Final = msgspec.json.Decoder(TimingGlance)
_slots: Final = msgspec.json.Decoder(SlotGlance)


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """A run at one moment: how much is committed, where its rows end, and what waits in the buffer."""

    paths: RunPaths
    run_id: str
    committed: int
    chain: str | None
    """The chain of the journal's last line; None when nothing is committed."""
    ends: EndOffsets
    waiting: Iterator[BufferedSlot]
    """Finished and not committed, in schedule order. Can be gone through once."""

    def finished(self) -> Iterator[tuple[TrialGlance, TimingGlance]]:
        """Every finished trial with its times: the committed ones, then those that wait."""
        trials, timings = self._committed_trials(), self._committed_timings()
        for trial, timing in zip(trials, timings, strict=True):
            if trial.schedule_idx != timing.schedule_idx:
                raise DamagedRun(
                    f"{self.paths.timings}: slot {timing.schedule_idx} stands where "
                    f"{trial.schedule_idx} should be"
                )
            yield trial, timing
        for kept in self.waiting:
            slot = _decode_waiting(self.paths, kept)
            yield slot.trial, slot.timing

    def trials(self) -> Iterator[TrialGlance]:
        """Every finished trial without its times."""
        yield from self._committed_trials()
        for kept in self.waiting:
            yield _decode_waiting(self.paths, kept).trial

    def _committed_trials(self) -> Iterator[TrialGlance]:
        pieces = read_pieces(self.paths.trials, self.ends.trials)
        return chain.from_iterable(_decode(self.paths.trials, _trials, pieces, self.committed))

    def _committed_timings(self) -> Iterator[TimingGlance]:
        # Timings have no offsets in the journal: line n belongs to slot n, whatever follows the last one.
        pieces = read_pieces(self.paths.timings, None)
        return chain.from_iterable(_decode(self.paths.timings, _timings, pieces, self.committed))


@contextmanager
def survey(paths: RunPaths) -> Iterator[Survey]:
    """Look at a run, live or dead."""
    run_id = read_run(paths).run_id
    with ExitStack() as stack:
        waiting, floor = open_waiting(paths, stack), find_floor(paths)
        last = read_last_line(paths.commits, run_id)
        refuse_shortened(paths, floor, last)
        committed = 0 if last is None else last.schedule_idx + 1
        yield Survey(
            paths=paths,
            run_id=run_id,
            committed=committed,
            chain=None if last is None else last.chain,
            ends=NO_ROWS if last is None else last.ends,
            waiting=iter_beyond(waiting, committed, run_id),
        )


def read_pieces(path: Path, end: int | None, *, start: int = 0) -> Iterator[bytes]:
    """A file's whole lines from one offset up to another or its last line end; a long line is one alone."""
    with storing("reading", path), path.open("rb") as file:
        size = file.seek(0, 2)
        stop = size if end is None else end
        if stop > size:
            raise DamagedRun(f"{path}: {size} bytes, but {stop} are committed")
        at, asked = file.seek(start), PIECE_BYTES
        while at < stop:
            piece = file.read(min(asked, stop - at))
            cut = piece.rfind(b"\n") + 1
            if cut:
                yield piece[:cut]
            elif len(piece) < asked:
                return  # a line without its end: still being written
            asked = PIECE_BYTES if cut else 2 * asked
            at = file.seek(at + cut)


def _decode(
    path: Path, decoder: msgspec.json.Decoder[Row], pieces: Iterator[bytes], count: int
) -> Iterator[list[Row]]:
    """The first `count` rows of a file, a piece of it at a time."""
    left = count
    for piece in pieces if count else ():
        try:
            rows = decoder.decode_lines(piece)
        except (ValueError, RecursionError) as error:
            raise DamagedRun(f"reading {path}: {error}; try: lab verify") from error
        yield rows[:left]
        left -= len(rows)
        if left <= 0:
            return
    if left:
        raise DamagedRun(f"{path}: {count - left} rows, but {count} are committed; try: lab verify")


def _decode_waiting(paths: RunPaths, kept: BufferedSlot) -> SlotGlance:
    try:
        return _slots.decode(kept.payload)
    except (ValueError, RecursionError) as error:
        raise DamagedRun(f"reading {paths.buffer}: slot {kept.schedule_idx}: {error}") from error
