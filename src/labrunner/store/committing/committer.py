"""The commit protocol: finished slots become durable, in the buffer or, in schedule order, in the files.

Rules: rows are synced before the journal's line, and the sync of the line is the commit point. A slot
is *finished* once it is durable in one of the two, and only then is anybody told. Nothing here is kept
for slots that wait but one bit each: their rows are read back from the buffer. No threads but those
that sync; the caller owns the run and calls from one thread.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from labrunner.errors import StoreError
from labrunner.files.durable import AppendFile, open_append
from labrunner.files.points import reach
from labrunner.records.commit import CommitLine, EndOffsets, RowCounts, finish
from labrunner.records.encoding import canonical
from labrunner.store.buffering.attempts import AttemptBook
from labrunner.store.buffering.buffer import Buffer, BufferedSlot, Changes, Event
from labrunner.store.buffering.buffered import encode_buffered
from labrunner.store.committing.reserve import Reserve
from labrunner.store.layout import RunPaths
from labrunner.store.rows.finished import FinishedSlots
from labrunner.store.rows.journal import GROUP_LIMIT
from labrunner.store.rows.slot_bytes import SlotBytes, decode_payload, encode_payload


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    """A slot that its dispatch reports as final."""

    slot: SlotBytes
    token: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFiles:
    """The files that a commit appends to."""

    predictions: AppendFile
    scores: AppendFile
    trials: AppendFile
    timings: AppendFile
    commits: AppendFile
    buffered: AppendFile

    @property
    def all(self) -> tuple[AppendFile, ...]:
        """Every file."""
        return (
            self.predictions,
            self.scores,
            self.trials,
            self.timings,
            self.commits,
            self.buffered,
        )


def open_files(paths: RunPaths, reserve: Reserve) -> RunFiles:
    """Open the files of a run whose ends are sound."""
    return RunFiles(
        predictions=open_append(paths.predictions, reserve.spend),
        scores=open_append(paths.scores, reserve.spend),
        trials=open_append(paths.trials, reserve.spend),
        timings=open_append(paths.timings, reserve.spend),
        commits=open_append(paths.commits, reserve.spend),
        buffered=open_append(paths.buffered, reserve.spend),
    )


class Committer:
    """Publishes one run's slots."""

    def __init__(
        self,
        *,
        run_id: str,
        chain: str,
        finished: FinishedSlots,
        files: RunFiles,
        buffer: Buffer,
        reserve: Reserve,
    ) -> None:
        """Go on from a sound state; see `labrunner.store.opening.opening`."""
        self.chain = chain
        self.finished = finished
        self.book = AttemptBook(buffer.attempts())
        self._run_id = run_id
        self._files = files
        self._buffer = buffer
        self._reserve = reserve
        self._events: list[Event] = []
        self._event_trials: set[str] = set()
        self._gone_trials: list[str] = []
        self._is_untrimmed = False
        self._syncers = ThreadPoolExecutor(max_workers=3, thread_name_prefix="lab-sync")

    @property
    def has_backlog(self) -> bool:
        """Whether a buffered slot could be committed right now."""
        return self.finished.is_buffered(self.finished.committed)

    @property
    def is_out_of_room(self) -> bool:
        """Whether the disk was full, and what was in hand took the reserve."""
        return self._reserve.is_spent

    @property
    def is_behind(self) -> bool:
        """Whether the buffer lacks notes, or still holds rows that it need not."""
        return self._is_untrimmed or self.book.has_changes or bool(self._events or self._gone_trials)

    def add_event(self, event: Event) -> None:
        """Keep a transcript's event with the next transaction."""
        self._events.append(event)
        self._event_trials.add(event.trial_id)

    def cut_off(self, token: str) -> None:
        """Drop an attempt that a crash ended, with its events: the next one of its number has its own."""
        note = self.book.cut_off(token)
        if note is not None:
            self._gone_trials.append(note.trial_id)
            # At once: what is dropped later would take the next attempt's events with it.
            self.flush(synced=False)

    def take(self, arrivals: Sequence[Arrival]) -> list[bool]:
        """Make a group of slots durable. Returns, for each, whether it is (False: it was refused)."""
        accepted: dict[int, Arrival] = {}
        verdicts = [self._accept(arrival, accepted) for arrival in arrivals]
        group = plan_group(self.finished, accepted)
        waiting = [accepted[idx] for idx in accepted if idx not in group]
        if waiting:
            self._keep(waiting)
        if group:
            self._publish(group, accepted)
        return verdicts

    def drain(self) -> None:
        """Commit one group from the buffer, if one is contiguous."""
        group = plan_group(self.finished, {})
        if group:
            self._publish(group, {})

    def flush(self, *, synced: bool) -> None:
        """Bring the buffer up to date."""
        if self.is_behind:
            self._buffer.write(self._changes(), synced=synced)

    def close(self) -> None:
        """Close every file. What was finished is durable already."""
        self._syncers.shutdown()
        for file in self._files.all:
            file.close()
        self._buffer.close()
        self._reserve.drop()

    def _accept(self, arrival: Arrival, accepted: dict[int, Arrival]) -> bool:
        idx = arrival.slot.schedule_idx
        if idx >= self.finished.planned or idx < self.finished.committed:
            return False
        if self.book.was_cut_off(idx, arrival.token):
            return False
        if self.finished.is_buffered(idx):
            kept = self._buffer.find(idx)
            return kept is not None and (kept.token, kept.digest) == (arrival.token, arrival.slot.digest)
        first = accepted.setdefault(idx, arrival)
        return (first.token, first.slot.digest) == (arrival.token, arrival.slot.digest)

    def _keep(self, arrivals: Sequence[Arrival]) -> None:
        for arrival in arrivals:
            self._forget(arrival.slot)
        self._buffer.write(self._changes([_complete(arrival) for arrival in arrivals]), synced=True)
        slots = ((arrival.slot.schedule_idx, arrival.slot.trial_id) for arrival in arrivals)
        self._files.buffered.append(encode_buffered(self._run_id, slots))
        for arrival in arrivals:
            self.finished.buffer(arrival.slot.schedule_idx)

    def _publish(self, group: range, accepted: Mapping[int, Arrival]) -> None:
        """Append rows and lines of contiguous slots, in the order that the commit protocol asks for."""
        reach("commit.begun")
        slots = list(self._collect(group, accepted))
        lines = self._append_rows(slots)
        reach("commit.rows_appended")
        self._sync_rows(slots)
        reach("commit.rows_synced")
        self._files.commits.append(b"".join(canonical.encode_line(line) for line in lines))
        reach("commit.line_appended")
        self._files.commits.sync()
        reach("commit.line_synced")
        self.chain = lines[-1].chain
        self._is_untrimmed = self._is_untrimmed or len(slots) > len(accepted.keys() & set(group))
        self.finished.commit_to(group.stop)
        for slot in slots:
            self._forget(slot)

    def _collect(self, group: range, accepted: Mapping[int, Arrival]) -> Iterator[SlotBytes]:
        """Slots of a group in order, each from the arrivals or else from the buffer."""
        missing = [idx for idx in group if idx not in accepted]
        kept = self._buffer.completions(missing[0], missing[-1] + 1) if missing else []
        waiting = {completion.schedule_idx: completion for completion in kept}
        for idx in group:
            yield accepted[idx].slot if idx in accepted else _read_back(self._run_id, idx, waiting.get(idx))

    def _append_rows(self, slots: Sequence[SlotBytes]) -> list[CommitLine]:
        files = self._files
        ends = EndOffsets(
            predictions=files.predictions.size, scores=files.scores.size, trials=files.trials.size
        )
        lines, chain = [], self.chain
        for slot in slots:
            line = make_line(self._run_id, chain, ends, slot)
            lines.append(line)
            chain, ends = line.chain, line.ends
        files.predictions.append(join_lines(row for slot in slots for row in slot.predictions))
        files.scores.append(join_lines(row for slot in slots for row in slot.scores))
        files.trials.append(join_lines(slot.trial for slot in slots))
        files.timings.append(join_lines(slot.timing for slot in slots))
        return lines

    def _sync_rows(self, slots: Sequence[SlotBytes]) -> None:
        files = self._files
        syncs: list[Callable[[], None]] = [files.timings.sync]
        if any(slot.predictions for slot in slots):
            syncs.append(files.predictions.sync)
        if any(slot.scores for slot in slots):
            syncs.append(files.scores.sync)
        others = [self._syncers.submit(sync) for sync in syncs]
        files.trials.sync()
        for other in others:
            other.result()

    def _forget(self, slot: SlotBytes) -> None:
        self.book.forget(slot.schedule_idx)
        if slot.trial_id in self._event_trials:
            self._event_trials.discard(slot.trial_id)
            self._gone_trials.append(slot.trial_id)

    def _changes(self, completions: Sequence[BufferedSlot] = ()) -> Changes:
        notes, gone = self.book.take_changes()
        trials = self._gone_trials
        # Events of a trial that is over lie in its folder by now: what was not stored yet never will be.
        over = set(trials)
        events = [event for event in self._events if event.trial_id not in over]
        self._events, self._gone_trials = [], []
        committed = self.finished.committed if self._is_untrimmed else None
        self._is_untrimmed = False
        return Changes(
            completions=completions,
            attempts=notes,
            gone_tokens=gone,
            events=events,
            gone_trials=trials,
            committed=committed,
        )


def plan_group(finished: FinishedSlots, arrived: Mapping[int, object]) -> range:
    """The slots to commit now: contiguous from the first uncommitted one, arrived or buffered."""
    start = stop = finished.committed
    while stop - start < GROUP_LIMIT and (stop in arrived or finished.is_buffered(stop)):
        stop += 1
    return range(start, stop)


def make_line(run_id: str, chain: str, before: EndOffsets, slot: SlotBytes) -> CommitLine:
    """The journal's line for a slot whose rows begin at the offsets `before`."""
    return finish(
        chain,
        CommitLine(
            schema_version="commit_v1",
            run_id=run_id,
            schedule_idx=slot.schedule_idx,
            trial_id=slot.trial_id,
            attempt=slot.attempt,
            slot_commit_id=slot.slot_commit_id,
            rows=RowCounts(predictions=len(slot.predictions), scores=len(slot.scores), trials=1),
            ends=EndOffsets(
                predictions=before.predictions + _size(slot.predictions),
                scores=before.scores + _size(slot.scores),
                trials=before.trials + _size((slot.trial,)),
            ),
            rows_digest=slot.digest,
            chain="",
            seal="",
        ),
    )


def join_lines(rows: Iterator[bytes]) -> bytes:
    """Rows as they lie in a file."""
    return b"".join(row + b"\n" for row in rows)


def _size(rows: Sequence[bytes]) -> int:
    return sum(map(len, rows)) + len(rows)


def _complete(arrival: Arrival) -> BufferedSlot:
    return BufferedSlot(
        schedule_idx=arrival.slot.schedule_idx,
        attempt=arrival.slot.attempt,
        token=arrival.token,
        digest=arrival.slot.digest,
        payload=encode_payload(arrival.slot),
    )


def _read_back(run_id: str, idx: int, kept: BufferedSlot | None) -> SlotBytes:
    if kept is None:
        raise StoreError(f"committing slot {idx}: it was in the buffer, and is gone; did somebody change it?")
    try:
        slot = decode_payload(kept.payload, run_id)
    except ValueError as error:
        raise StoreError(f"committing slot {idx}: its rows in the buffer can't be used: {error}") from error
    if slot.digest != kept.digest:
        raise StoreError(f"committing slot {idx}: its rows in the buffer do not match their digest")
    return slot
