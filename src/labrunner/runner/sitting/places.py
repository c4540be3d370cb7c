"""Who is where: attempts in flight, attempts whose files are being collected, slots that are not settled yet.

Rules: a place is free once an attempt's sandbox is gone; from then on it is not to be cancelled. What waits
to be collected or committed has its own bound, so that memory grows with what is in flight and no further.
"""

import asyncio
import time
from functools import partial
from typing import Final

from labrunner.executor.door import HasPlaces
from labrunner.records.run import RunError
from labrunner.runner.sitting.course import Tallies
from labrunner.runner.sitting.stopping import StopRequest

UNSETTLED_MARGIN: Final = 512
"""How many trials may wait for their commit beyond those that run."""
_LOOK_S: Final = 0.2


class Places:
    """The places of one sitting, by the token of the attempt that has each."""

    def __init__(
        self, concurrency: int, tallies: Tallies, *, has_budget: bool, own: HasPlaces | None = None
    ) -> None:
        """Begin with all free. Under a budget, one is free only when it is known what was used in it.

        Where an executor has places of its own, no more are taken than it has just now.
        """
        self._most = concurrency
        self._own = own
        self._tallies = tallies
        self._has_budget = has_budget
        self._in_flight: dict[str, asyncio.Task[None]] = {}
        self._collecting: dict[str, asyncio.Task[None] | None] = {}
        self._unsettled = 0
        self.changed = asyncio.Event()
        """Set when whoever dispatches has to look again."""

    @property
    def _concurrency(self) -> int:
        return self._most if self._own is None else min(self._most, self._own.places)

    @property
    def trouble(self) -> str:
        """Why there are fewer places than there should be, where that is known."""
        return "" if self._own is None else self._own.trouble

    @property
    def end(self) -> str:
        """Why there will never be places again, where they are gone for good."""
        return "" if self._own is None else self._own.end

    def find_end(self) -> RunError | None:
        """The same as what ends the run."""
        return RunError(message=self.end) if self.end else None

    async def open(self) -> None:
        """Come to have places, where they are an executor's own."""
        if self._own is not None:
            await self._own.open(self.changed.set)

    @property
    def has_free(self) -> bool:
        """Whether one more attempt may start."""
        taken = len(self._in_flight) + (len(self._collecting) if self._has_budget else 0)
        return (
            taken < self._concurrency
            # What waits to be collected would be lost in a crash: not much more of it than of what runs.
            and len(self._collecting) <= self._concurrency
            and self._unsettled < self._concurrency + UNSETTLED_MARGIN
        )

    @property
    def are_settled(self) -> bool:
        """Whether nothing is under way."""
        return not self._unsettled

    def take(self, token: str, task: asyncio.Task[None]) -> None:
        """Have an attempt take a place, until its task ends at the latest."""
        self._unsettled += 1
        self._in_flight[token] = task
        self._tallies.running = len(self._in_flight)
        task.add_done_callback(partial(self._on_settled, token))

    def free(self, token: str) -> None:
        """An attempt's sandbox is gone, its files are still collected."""
        self._collecting[token] = self._in_flight.get(token)
        self._land(token)

    def leave(self, token: str) -> None:
        """An attempt has come to its end, or was cancelled."""
        self._collecting.pop(token, None)
        self._land(token)

    def _on_settled(self, token: str, task: asyncio.Task[None]) -> None:
        del task
        self._land(token)
        self._unsettled -= 1

    def _land(self, token: str) -> None:
        self._in_flight.pop(token, None)
        self._tallies.running = len(self._in_flight)
        self.changed.set()

    async def wait_for_change(self, *times: float | None) -> None:
        """Wait until somebody came, went or asked to stop, or for the first of these monotonic times."""
        due = [each for each in times if each is not None]
        if due:
            try:
                async with asyncio.timeout(max(0.0, min(due) - time.monotonic())):
                    await self.changed.wait()
            except TimeoutError:
                return
        else:  # the usual way, and a timer for every trial would be felt
            await self.changed.wait()
        self.changed.clear()

    async def wake_on_stop(self, stop: StopRequest) -> None:
        """Have whoever dispatches look again when somebody asks to stop."""
        await stop.stopped.wait()
        self.changed.set()

    async def empty(self, stop: StopRequest, *, grace_s: float) -> None:
        """Let what is in flight end within the grace, then end it; what is collected is waited for.

        Where the places are gone for good, nothing can be waited for.
        """
        deadline = time.monotonic() + grace_s
        while self._in_flight and not (stop.hurried.is_set() or self.end):
            if (now := time.monotonic()) >= deadline:
                break
            await self.wait_for_change(min(deadline, now + _LOOK_S))
        for task in list(self._in_flight.values()):
            task.cancel()
        while self._collecting and not self.end:
            self.changed.clear()
            await self.changed.wait()
        for task in filter(None, self._collecting.values()):
            task.cancel()
