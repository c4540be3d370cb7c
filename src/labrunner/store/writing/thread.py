"""The thread that owns a run's files: takes requests in groups, carries them out, answers in one go.

Rules: whatever failed, nothing is written after it and everybody who waits is told. Notes come before
results, results before views. A note that nobody waits for wakes the thread only when it would sleep on
without end. The thread ends when it is told to leave; only then is the lock free.
"""

import asyncio
import logging
import queue
import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, assert_never

from labrunner.errors import StoreError
from labrunner.files.durable import replace
from labrunner.files.points import reach
from labrunner.records.facts.outage_note import OutageNote
from labrunner.store.buffering.attempts import AttemptNote
from labrunner.store.buffering.buffer import Event
from labrunner.store.committing.committer import Arrival, Committer
from labrunner.store.layout import RunPaths
from labrunner.store.opening.opening import OpeningReport, open_run
from labrunner.store.rows.journal import GROUP_LIMIT
from labrunner.store.rows.lock import acquire
from labrunner.store.rows.outages import put_outage

MOST_REQUESTS: Final = 4 * GROUP_LIMIT
"""Every slot comes with some notes: a group is full when its slots are as many as one commit publishes."""
LAZY_S: Final = 0.2
"""How long a note that need not be durable at once may wait for company."""

_log: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class OnNode:
    """A node of a cluster carries an attempt out."""

    token: str
    node: str


@dataclass(frozen=True, slots=True)
class Barrier:
    """An attempt's agent has ended."""

    token: str
    payload: bytes


@dataclass(frozen=True, slots=True)
class GraderStarted:
    """A grader is about to touch an attempt's workspace."""

    token: str


@dataclass(frozen=True, slots=True)
class Status:
    """New content of `status.json`."""

    data: bytes


@dataclass(frozen=True, slots=True)
class Summary:
    """New content of `benchmark/summary.json`."""

    data: bytes


@dataclass(frozen=True, slots=True)
class OutageNoted:
    """An outage began, or is over."""

    outage: OutageNote


@dataclass(frozen=True, slots=True)
class Settle:
    """Commit whatever can be, before answering."""


@dataclass(frozen=True, slots=True)
class Nudge:
    """There are notes to be looked at."""


@dataclass(frozen=True, slots=True)
class Leave:
    """The last request."""


@dataclass(frozen=True, slots=True)
class FailedAttempt:
    """An attempt failed, and its trial is tried again."""

    token: str
    payload: bytes


@dataclass(frozen=True, slots=True)
class CutOff:
    """A crash ended this attempt."""

    token: str


Note = AttemptNote | OnNode | Barrier | GraderStarted | FailedAttempt | CutOff | Event
Wish = Arrival | Note | Status | Summary | OutageNoted | Settle | Nudge | Leave


@dataclass(slots=True)
class StoreRequest:
    """A wish and, when somebody waits for it, where to answer."""

    wish: Wish
    answer: asyncio.Future[bool] | None
    result: bool = True
    error: Exception | None = None


class WriterThread(threading.Thread):
    """Owns one run from `start` until a `Leave` was carried out."""

    committer: Committer
    report: OpeningReport

    def __init__(self, paths: RunPaths, loop: asyncio.AbstractEventLoop) -> None:
        """Only assign. `opened` and `closed` tell the loop how far the thread is."""
        super().__init__(name="lab-writer", daemon=True)
        self.opened: asyncio.Future[None] = loop.create_future()
        self.closed: asyncio.Future[None] = loop.create_future()
        self.broken: Exception | None = None
        self._paths = paths
        self._loop = loop
        self._requests: queue.SimpleQueue[StoreRequest] = queue.SimpleQueue()
        self._notes: deque[StoreRequest] = deque()
        self._taken: list[StoreRequest] = []
        self._is_dozing = False
        self._behind_since: float | None = None

    def put(self, wish: Wish, answer: asyncio.Future[bool] | None = None) -> None:
        """Hand a wish over, from the loop's thread."""
        self._requests.put(StoreRequest(wish, answer))

    def leave_note(self, note: Note) -> None:
        """Hand a note over that nobody waits for, from any thread."""
        self._notes.append(StoreRequest(note, None))
        if self._is_dozing or len(self._notes) >= MOST_REQUESTS:
            self._is_dozing = False
            self._requests.put(StoreRequest(Nudge(), None))

    def run(self) -> None:
        """Own the run. Called by `start`."""
        failure: BaseException | None = None
        try:
            with acquire(self._paths) as lock:
                self.committer, self.report = open_run(lock)
                self._loop.call_soon_threadsafe(_settle, self.opened, None)
                self._serve()
        except BaseException as error:  # noqa: BLE001 - handed to whoever opened the run, or waits for it
            failure = error
            self.broken = StoreError(f"writing to {self._paths.root}: {error!r}")
            self._refuse_waiting(self.broken)
        self._loop.call_soon_threadsafe(_settle, self.opened, failure)
        self._loop.call_soon_threadsafe(_settle, self.closed, None)

    def _serve(self) -> None:
        is_leaving = False
        while not is_leaving:
            group = self._taken = self._take()
            is_leaving = any(isinstance(request.wish, Leave) for request in group)
            is_settling = is_leaving or any(isinstance(request.wish, Settle) for request in group)
            self._carry_out(group, is_settling=is_settling)
            self._answer(group)
            self._taken = []
        try:
            self.committer.close()
        except StoreError as error:
            self.broken = self.broken or error

    def _refuse_waiting(self, error: StoreError) -> None:
        """Answer whoever waits and will not be served any more."""
        waiting = list(self._taken)
        while not self._requests.empty():
            waiting.append(self._requests.get_nowait())
        for request in waiting:
            request.error = error
        self._loop.call_soon_threadsafe(_deliver, [each for each in waiting if each.answer is not None])

    def _take(self) -> list[StoreRequest]:
        """What there is, up to a group; waits while there is nothing to do."""
        asked: list[StoreRequest] = []
        slots = 0
        try:
            request = self._requests.get(timeout=self._patience())
            while True:
                asked.append(request)
                slots += isinstance(request.wish, Arrival)
                if slots == GROUP_LIMIT or len(asked) == MOST_REQUESTS:
                    break
                request = self._requests.get_nowait()
        except queue.Empty:
            pass
        self._is_dozing = False
        # Taken last: a note that came before something in the group is in it, too.
        return [*self._take_notes(), *asked]

    def _take_notes(self) -> Iterator[StoreRequest]:
        for _ in range(len(self._notes)):
            yield self._notes.popleft()

    def _patience(self) -> float | None:
        if self.broken is None and self.committer.has_backlog:
            return 0.0
        if self._behind_since is None:
            self._is_dozing = True
            return 0.0 if self._notes else None  # whoever left one before saw us awake
        return max(0.0, self._behind_since + LAZY_S - time.monotonic())

    def _carry_out(self, group: Sequence[StoreRequest], *, is_settling: bool) -> None:
        if self.broken is None:
            try:
                self._write(group)
                self._catch_up(is_settling=is_settling)
                self._stop_if_full()
                return
            except Exception as error:  # noqa: BLE001 - after any failure the files may not be touched again
                self.broken = error
                self._behind_since = None
        for request in group:
            request.error = self.broken

    def _stop_if_full(self) -> None:
        """Take nothing more once the reserve is spent; whoever waited has been served."""
        if self.committer.is_out_of_room:
            self.broken = StoreError(f"writing to {self._paths.root}: the disk is full")
            self._behind_since = None

    def _write(self, group: Sequence[StoreRequest]) -> None:
        is_asked = False
        for request in group:
            if isinstance(request.wish, Note):
                self._note(request, request.wish)
                is_asked = is_asked or request.answer is not None
        arrivals = [(request, request.wish) for request in group if isinstance(request.wish, Arrival)]
        if arrivals:
            results = self.committer.take([wish for _, wish in arrivals])
            for (request, _), result in zip(arrivals, results, strict=True):
                request.result = result
        elif self.committer.has_backlog:
            self.committer.drain()
        if is_asked:
            self.committer.flush(synced=True)
        self._show(group)

    def _note(self, request: StoreRequest, note: Note) -> None:
        try:
            match note:
                case AttemptNote():
                    self.committer.book.dispatch(note)
                case OnNode(token, node):
                    self.committer.book.place(token, node)
                case Barrier(token, payload):
                    self.committer.book.hold_barrier(token, payload)
                case GraderStarted(token):
                    self.committer.book.start_grader(token)
                case FailedAttempt(token, payload):
                    self.committer.book.hold_failure(token, payload)
                case CutOff(token):
                    self.committer.cut_off(token)
                case Event():
                    self.committer.add_event(note)
                case _:
                    assert_never(note)
        except ValueError as error:
            request.error = error
            if request.answer is None:
                _log.warning("a note was not kept: %s", error)

    def _show(self, group: Sequence[StoreRequest]) -> None:
        """Replace views; of status and summary the last one of a group says it all."""
        wishes = [request.wish for request in group]
        statuses = [wish for wish in wishes if isinstance(wish, Status)]
        summaries = [wish for wish in wishes if isinstance(wish, Summary)]
        for wish in wishes:
            if isinstance(wish, OutageNoted):
                put_outage(self._paths, wish.outage)
        if summaries:
            replace(self._paths.summary, summaries[-1].data, point="summary")
        if statuses:
            replace(self._paths.status, statuses[-1].data, point="status")

    def _catch_up(self, *, is_settling: bool) -> None:
        while is_settling and self.committer.has_backlog:
            self.committer.drain()
        if not self.committer.is_behind:
            self._behind_since = None
            return
        now = time.monotonic()
        self._behind_since = self._behind_since or now
        if is_settling or now - self._behind_since >= LAZY_S:
            self.committer.flush(synced=is_settling)
            self._behind_since = None

    def _answer(self, group: Sequence[StoreRequest]) -> None:
        waiting = [request for request in group if request.answer is not None]
        if waiting:
            self._loop.call_soon_threadsafe(_deliver, waiting)
            reach("commit.acknowledged")


def _deliver(requests: Sequence[StoreRequest]) -> None:
    for request in requests:
        answer = request.answer
        if answer is None or answer.done():
            continue
        if request.error is not None:
            answer.set_exception(request.error)
        else:
            answer.set_result(request.result)


def _settle(future: asyncio.Future[None], failure: BaseException | None) -> None:
    if future.done():
        return
    if failure is not None:
        future.set_exception(failure)
    else:
        future.set_result(None)
