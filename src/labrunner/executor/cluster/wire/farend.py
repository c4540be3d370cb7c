"""A worker's end of a wire: it hears questions, has each answered aside, and says what is answered.

Rule: what breaks over a question is said to that question. What it raised may hold anything of a run: its
kind and its place are told, not its words.
"""

import asyncio
import traceback
from collections.abc import AsyncIterator
from pathlib import Path

from labrunner.executor.cluster.wire.frames import Question, ReadOn, Said, Unwanted, pack, unpack_down
from labrunner.executor.cluster.wire.lanes import AnswerLanes


class FarEnd:
    """Questions to one who answers them by methods of their names."""

    def __init__(self, asked: object) -> None:
        """Take who answers."""
        self._asked = asked
        self._lanes = AnswerLanes()
        self._tasks: set[asyncio.Task[None]] = set()

    def hear(self, batch: bytes) -> None:
        """Begin to answer what is asked in a batch. Raises ValueError if it is none."""
        for frame in unpack_down(batch):
            match frame:
                case Question():
                    self._lanes.open(frame.number)
                    task = asyncio.ensure_future(self._answer(frame))
                    self._tasks.add(task)
                    task.add_done_callback(self._tasks.discard)
                case ReadOn(number=number, count=count):
                    self._lanes.widen(number, count)
                case Unwanted(number=number):
                    self._lanes.leave(number)

    async def take(self) -> bytes:
        """The next batch of what is said."""
        return pack(await self._lanes.take())

    async def _answer(self, asked: Question) -> None:
        end = Said(asked.number, "broken", b"its worker was cancelled over it")
        try:
            end = Said(asked.number, "last", await self._say(asked))
        except Exception as error:  # noqa: BLE001 - whoever asked has it raised
            end = Said(asked.number, "broken", _describe(asked.name, error))
        finally:
            self._lanes.put(end)

    async def _say(self, asked: Question) -> bytes:
        """Say all but the last."""
        answers = getattr(self._asked, asked.name)(*asked.words)
        if not isinstance(answers, AsyncIterator):
            return await answers or b""
        async for each in answers:
            self._lanes.put(Said(asked.number, "more", each))
        return b""


def _describe(name: str, error: Exception) -> bytes:
    *_, (frame, line) = traceback.walk_tb(error.__traceback__)
    where = Path(frame.f_code.co_filename).name
    return f"its worker broke over {name!r}: {type(error).__name__} in {where}, line {line}".encode()
