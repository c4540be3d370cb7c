"""The coordinator's end of a wire: it asks, and hears.

Rules: what is put while a batch is under way goes in the next one: nothing waits for company. Who is
cancelled leaves the others alone. Once the other end is gone, everybody who waits hears it, and whoever asks.
"""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import contextmanager
from itertools import count

from labrunner.executor.cluster.wire.frames import (
    BATCH_BYTES,
    WINDOW_BYTES,
    Down,
    Question,
    ReadOn,
    Said,
    Unwanted,
    pack,
    unpack_said,
)

Answers = asyncio.Queue[Said | None]


class Unanswered(Exception):
    """No answer will come: the other end is gone, or broke over this question."""


class NearEnd:
    """Questions under way; it carries them from the first one on, until the other end is gone."""

    def __init__(
        self, hear: Callable[[bytes], Awaitable[None]], take: Callable[[], Awaitable[bytes]]
    ) -> None:
        """Take how a batch gets to the other end, and how one is got from there."""
        self._hear, self._take = hear, take
        self._outbox: deque[Down] = deque()
        self._has_some = asyncio.Event()
        self._numbers = count()
        self._waiting: dict[int, Answers] = {}
        self._carriers: tuple[asyncio.Task[None], ...] = ()
        self._cut: BaseException | None = None

    async def ask(self, name: str, *words: object) -> bytes:
        """The one answer to a question. Raises Unanswered."""
        with self._asked(name, words) as (_, answers):
            return (await self._next(answers)).data

    async def stream(self, name: str, *words: object) -> AsyncGenerator[bytes, None]:
        """The many answers to a question. Raises Unanswered."""
        with self._asked(name, words) as (number, answers):
            unsaid = 0
            while (said := await self._next(answers)).kind == "more":
                yield said.data
                unsaid += said.size
                if 2 * unsaid >= WINDOW_BYTES:
                    self._put(ReadOn(number, unsaid))
                    unsaid = 0

    @contextmanager
    def _asked(self, name: str, words: tuple[object, ...]) -> Iterator[tuple[int, Answers]]:
        """While inside, answers to a question may come."""
        number, answers = next(self._numbers), Answers()
        self._waiting[number] = answers
        if self._cut is not None:
            answers.put_nowait(None)
        self._put(Question(number, name, words))
        try:
            yield number, answers
        finally:
            if self._waiting.pop(number, None) is not None:
                self._put(Unwanted(number))

    async def _next(self, answers: Answers) -> Said:
        said = await answers.get()
        if said is None:
            raise Unanswered(str(self._cut) or type(self._cut).__name__) from self._cut
        if said.kind == "broken":
            raise Unanswered(said.data.decode())
        return said

    def _put(self, frame: Down) -> None:
        if self._cut is not None:
            return
        self._outbox.append(frame)
        self._has_some.set()
        if not self._carriers:
            self._carriers = (asyncio.ensure_future(self._send()), asyncio.ensure_future(self._receive()))
            for carrier in self._carriers:
                carrier.add_done_callback(self._end)

    async def _send(self) -> None:
        while True:
            await self._has_some.wait()
            await self._hear(pack(self._batch()))

    def _batch(self) -> Iterator[Down]:
        size = 0
        while self._outbox and size < BATCH_BYTES:
            frame = self._outbox.popleft()
            size += frame.size
            yield frame
        if not self._outbox:
            self._has_some.clear()

    async def _receive(self) -> None:
        while True:
            for said in unpack_said(await self._take()):
                self._hand_on(said)

    def _hand_on(self, said: Said) -> None:
        answers = self._waiting.get(said.number)
        if answers is None:
            return  # nobody waits for it any more
        if said.kind != "more":
            del self._waiting[said.number]
        answers.put_nowait(said)

    def _end(self, carrier: asyncio.Task[None]) -> None:
        error = asyncio.CancelledError() if carrier.cancelled() else carrier.exception()
        if self._cut is not None:
            return
        self._cut = error
        for each in self._carriers:
            each.cancel()
        for answers in self._waiting.values():
            answers.put_nowait(None)
        self._outbox.clear()
