"""Loops in threads of their own for the code of tasks, so that code that blocks stalls nothing else.

One lane carries all trials as long as it answers. A lane that does not answer for a while is stuck: people
are told which trial and line keep it, and work that comes meanwhile goes to a fresh lane. Time limits, the
display, commits and sandboxes live in the home loop and never wait for a lane. Work that does not end when
it is cancelled is abandoned: its lane is lost, its trial is not. Work that is cancelled while another trial
keeps its lane is told so: what it did not do in time is not its own doing.
"""

import asyncio
import logging
import sys
import threading
import time
import traceback
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from labrunner.errors import AttemptFailed
from labrunner.files.uninterrupted import wait_out
from labrunner.records.cause import Cause
from labrunner.solve.models.mailbox import Mailbox, recall, send

T = TypeVar("T")
_log: Final = logging.getLogger("labrunner")


@dataclass(frozen=True, slots=True, kw_only=True)
class LanePace:
    """How long lanes are waited for, in seconds."""

    beat_s: float = 0.5
    """Between two questions whether a lane still answers."""
    stuck_after_s: float = 2.0
    late_after_s: float = 1.0
    """A lane that has not answered for so long lets nobody else work."""
    give_up_s: float = 5.0
    """How long work may take to end once it is cancelled."""


LANE_PACE: Final = LanePace()


class AbandonedLane(Exception):
    """Work did not end when it was told to: it blocks its lane."""


class Crowded(AttemptFailed):
    """Another trial kept the lane until this one's time was up."""

    cause = Cause.SOLVER

    def __init__(self, keeper: str) -> None:
        """Name the trial that is to blame."""
        super().__init__(
            "lane_blocked",
            f"trial {keeper} blocked the event loop that both share until this trial's time was up; "
            "let blocking code run in a thread: await asyncio.to_thread(...)",
        )


class LeftByItself(Exception):
    """Code of a task tried to end the whole program, or its own task, from within."""


class Lane:
    """One loop in one thread."""

    def __init__(self, number: int, home: Mailbox, pace: LanePace) -> None:
        """Start the thread; `home` is where ends are told."""
        self.loop = asyncio.new_event_loop()
        self._mail = Mailbox(self.loop)
        self._home = home
        self._pace = pace
        self.working: set[str] = set()
        self.answered_at = time.monotonic()
        self.is_told = False
        """People know that it is stuck."""
        self._thread = threading.Thread(target=self._serve, name=f"lab-lane-{number}", daemon=True)
        self._thread.start()

    @property
    def silent_s(self) -> float:
        """Seconds since it last answered."""
        return time.monotonic() - self.answered_at

    @property
    def is_stuck(self) -> bool:
        """Whether something keeps it."""
        return self.silent_s > self._pace.stuck_after_s

    async def run(
        self, name: str, make: Callable[[], Coroutine[Any, Any, T]], on_kept: Callable[[str], None]
    ) -> T:
        """Carry out work in this lane, from the home loop. Cancelling waits for the work's end, not for ever.

        `on_kept` hears, when it is cancelled, of another trial that kept it from working.
        Raises Abandoned when it was cancelled and does not end.
        """
        self.working.add(name)
        errand = send(self._mail, self._home, lambda: _contained(make), name)
        try:
            return await asyncio.shield(errand)
        except asyncio.CancelledError:
            if errand.cancelled():
                raise LeftByItself("the task's code cancelled itself") from None
            is_late = self.silent_s > self._pace.late_after_s
            if is_late and (keeper := self._keeper()) in self.working - {name}:
                on_kept(keeper)
            recall(self._mail, errand)
            await _wait_for_end(errand, self._pace.give_up_s)
            raise
        finally:
            self.working.discard(name)

    def beat(self) -> None:
        """Ask for a sign of life; a lane that has ended meanwhile gives none."""
        try:
            self.loop.call_soon_threadsafe(self._answer)
        except RuntimeError:
            if not self.loop.is_closed():
                raise

    def _keeper(self) -> str:
        """The trial that is at work this moment."""
        task = asyncio.current_task(self.loop)
        return task.get_name() if task is not None else ""

    def where(self) -> str:
        """The trial and the line that keep it, as far as can be told from outside."""
        name = self._keeper()
        trial = name if name in self.working else ", ".join(sorted(self.working)[:5]) or "unknown"
        frame = sys._current_frames().get(self._thread.ident or 0)  # noqa: SLF001 - the documented way
        if frame is None:
            return f"trial {trial}"
        last = traceback.extract_stack(frame, limit=1)[0]
        return f"trial {trial} at {last.filename}:{last.lineno} ({last.name})"

    def close(self) -> None:
        """Let the thread end, when it can."""
        self.loop.call_soon_threadsafe(self.loop.stop)
        if not self.is_stuck:
            self._thread.join(timeout=self._pace.give_up_s)

    async def _end_all(self) -> None:
        """End what was abandoned and can be ended by now: nobody hears of it any more."""
        left = asyncio.all_tasks() - {asyncio.current_task()}
        for task in left:
            if not task.cancelling():  # a second time would cut its clean-up short
                task.cancel()
        if left:
            await asyncio.wait(left, timeout=self._pace.give_up_s)

    def _answer(self) -> None:
        self.answered_at = time.monotonic()

    def _serve(self) -> None:
        asyncio.set_event_loop(self.loop)
        try:
            self.loop.run_forever()
            self.loop.run_until_complete(self._end_all())
            self.loop.run_until_complete(self.loop.shutdown_asyncgens())
        finally:
            # Here, not in `close`: a lane that was stuck ends by itself, long after.
            self.loop.close()


class Lanes:
    """The lanes of one run, and the watchdog over them."""

    def __init__(
        self, home: Mailbox, warn: Callable[[str], None] | None = None, pace: LanePace | None = None
    ) -> None:
        """Start nothing yet; `home` is the mailbox of the loop that work comes from."""
        self._home = home
        self._pace = pace or LANE_PACE
        self._lanes: list[Lane] = []
        self._warn = warn or _log.warning
        self._is_over = threading.Event()
        self._watchdog: threading.Thread | None = None

    async def run(
        self,
        name: str,
        make: Callable[[], Coroutine[Any, Any, T]],
        on_kept: Callable[[str], None] = lambda _: None,
    ) -> T:
        """Carry out work in a lane that answers; see `Lane.run`."""
        return await self._choose().run(name, make, on_kept)

    def close(self) -> None:
        """End all lanes that can be ended."""
        self._is_over.set()
        for lane in self._lanes:
            lane.close()
        self._lanes.clear()

    def _choose(self) -> Lane:
        if self._watchdog is None:
            self._watchdog = threading.Thread(target=self._watch, name="lab-watchdog", daemon=True)
            self._watchdog.start()
        for lane in self._lanes:
            if not lane.is_stuck:
                return lane
        self._lanes.append(Lane(len(self._lanes) + 1, self._home, self._pace))
        return self._lanes[-1]

    def _watch(self) -> None:
        while not self._is_over.wait(self._pace.beat_s):
            for lane in list(self._lanes):
                self._look(lane)

    def _look(self, lane: Lane) -> None:
        if not lane.is_stuck:
            lane.is_told = False
        elif not lane.is_told:
            lane.is_told = True
            self._warn(
                f"{lane.where()} has blocked its event loop for {lane.silent_s:.0f} s; trials beside it "
                "wait. Let blocking code run in a thread: await asyncio.to_thread(...)"
            )
        lane.beat()


async def _contained(make: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Keep what would end the lane's thread inside the task."""
    try:
        return await make()
    except (asyncio.CancelledError, Exception):
        raise
    except BaseException as error:
        raise LeftByItself(f"the task's code raised {type(error).__name__}") from error


async def _wait_for_end(done: asyncio.Future[Any], give_up_s: float) -> None:
    """Wait until cancelled work has ended, whatever it ends with; being cancelled again changes nothing."""
    await wait_out(done, until=time.monotonic() + give_up_s)
    if not done.done():
        # Whoever abandons it must not hear of its end any more.
        done.cancel()
        raise AbandonedLane(f"work that was cancelled did not end in {give_up_s:.0f} s")
    if not done.cancelled():
        done.exception()
