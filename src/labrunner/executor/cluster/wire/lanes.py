"""Answers on their way out of a worker, each question's in a lane of its own.

Rules: lanes take turns, so that nobody waits behind another's files. A lane whose reader does not read on
goes no further than its window; the others do. What nobody waits for any more is dropped.
"""

import asyncio
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field

from labrunner.executor.cluster.wire.frames import BATCH_BYTES, WINDOW_BYTES, Said


@dataclass(slots=True, eq=False)
class _Lane:
    frames: deque[Said] = field(default_factory=deque)
    window: int = WINDOW_BYTES
    is_in_turn: bool = False
    is_left: bool = False


class AnswerLanes:
    """Those of the questions that have not been answered to the end."""

    def __init__(self) -> None:
        """Nobody has asked."""
        self._lanes: dict[int, _Lane] = {}
        self._turns: deque[_Lane] = deque()
        self._has_some = asyncio.Event()

    def __len__(self) -> int:
        """How many questions are open."""
        return len(self._lanes)

    def open(self, number: int) -> None:
        """A question was asked."""
        self._lanes[number] = _Lane()

    def put(self, said: Said) -> None:
        """Something is said to it."""
        lane = self._lanes[said.number]
        if not lane.is_left:
            lane.frames.append(said)
            self._line_up(lane)
        elif said.kind != "more":
            del self._lanes[said.number]

    def widen(self, number: int, count: int) -> None:
        """Its reader has read so many bytes."""
        if (lane := self._lanes.get(number)) is not None:
            lane.window += count
            self._line_up(lane)

    def leave(self, number: int) -> None:
        """Nobody waits for its answers any more."""
        if (lane := self._lanes.get(number)) is None:
            return
        lane.is_left = True
        if lane.frames and lane.frames[-1].kind != "more":
            del self._lanes[number]
        lane.frames.clear()

    async def take(self) -> list[Said]:
        """The next batch, as soon as there is anything that may go."""
        while not (batch := list(self._batch())):
            self._has_some.clear()
            await self._has_some.wait()
        return batch

    def _line_up(self, lane: _Lane) -> None:
        if lane.frames and lane.window > 0 and not lane.is_in_turn:
            lane.is_in_turn = True
            self._turns.append(lane)
            self._has_some.set()

    def _batch(self) -> Iterator[Said]:
        size = 0
        while self._turns and size < BATCH_BYTES:
            lane = self._turns.popleft()
            lane.is_in_turn = False
            if not lane.frames:
                continue  # it was left
            said = lane.frames.popleft()
            lane.window -= said.size
            size += said.size
            if said.kind != "more":
                del self._lanes[said.number]
            self._line_up(lane)
            yield said
