"""Both ends of a wire, without Ray between them: one who answers, and batches counted, held or lost."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import aclosing

import msgspec
import pytest
import pytest_asyncio

from labrunner.executor.cluster.wire.farend import FarEnd
from labrunner.executor.cluster.wire.frames import (
    BATCH_BYTES,
    WINDOW_BYTES,
    Unwanted,
    unpack_down,
    unpack_said,
)
from labrunner.executor.cluster.wire.nearend import NearEnd, Unanswered

PIECE = bytes(WINDOW_BYTES)
SECRET = "nobody is to see this"


class Answerer:
    """Who is asked at the far end."""

    def __init__(self) -> None:
        self.go = asyncio.Event()
        self.notes: list[int] = []
        self.said: Counter[str] = Counter()
        self.ended: list[str] = []

    async def echo(self, *words: object) -> bytes:
        return repr(words).encode()

    async def note(self, number: int) -> None:
        self.notes.append(number)

    async def give_back(self, data: bytes) -> bytes:
        return data

    async def wait(self) -> bytes:
        await self.go.wait()
        return b"went"

    async def stay(self) -> None:
        await asyncio.Event().wait()

    async def fail(self) -> bytes:
        raise KeyError(SECRET)

    async def give_up(self) -> bytes:
        raise asyncio.CancelledError

    async def count(self, most: int) -> AsyncIterator[bytes]:
        for number in range(most):
            yield b"%d" % number

    async def fail_late(self) -> AsyncIterator[bytes]:
        yield b"one"
        raise KeyError(SECRET)

    async def pieces(self, name: str, most: int) -> AsyncIterator[bytes]:
        try:
            for number in range(most):
                self.said[name] += 1
                yield b"%d" % number + PIECE
        finally:
            self.ended.append(name)


class Wire:
    """Both ends, and what is between them."""

    def __init__(self) -> None:
        self.answerer = Answerer()
        self.far = FarEnd(self.answerer)
        self.near = NearEnd(self._hear, self._take)
        self.open = asyncio.Event()
        """Set while batches come through to the far end."""
        self.open.set()
        self.death: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self.there: list[int] = []
        """How many frames each batch had that went there, or came back."""
        self.back: list[int] = []
        self.unwanted = 0
        """How many questions were said to be left."""
        self.sizes: list[int] = []
        """Of all batches, in bytes."""

    async def _hear(self, batch: bytes) -> None:
        frames = unpack_down(batch)
        self.there.append(len(frames))
        self.unwanted += sum(isinstance(frame, Unwanted) for frame in frames)
        self.sizes.append(len(batch))
        await self.open.wait()
        if self.death.done():
            await self.death
        self.far.hear(batch)

    async def _take(self) -> bytes:
        taking = asyncio.ensure_future(self.far.take())
        await asyncio.wait({taking, self.death}, return_when=asyncio.FIRST_COMPLETED)
        if self.death.done():
            taking.cancel()
            return await self.death
        batch = await taking
        self.back.append(len(unpack_said(batch)))
        self.sizes.append(len(batch))
        return batch


@pytest_asyncio.fixture
async def wire() -> AsyncIterator[Wire]:
    made = Wire()
    yield made
    if not made.death.done():
        made.death.set_exception(OSError("the test is over"))
    with pytest.raises(Unanswered):
        await made.near.ask("stay")


async def collect(answers: AsyncIterator[bytes]) -> list[bytes]:
    return [each async for each in answers]


async def settle() -> None:
    """Have everything come as far as it can by itself."""
    for _ in range(200):
        await asyncio.sleep(0)


async def test_words_get_there_as_they_are(wire: Wire) -> None:
    assert await wire.near.ask("echo", "a", b"\0\xff", 7, None) == repr(("a", b"\0\xff", 7, None)).encode()


async def test_what_has_no_answer_is_done_once_it_was_told(wire: Wire) -> None:
    assert await wire.near.ask("note", 7) == b""
    assert wire.answerer.notes == [7]


async def test_what_is_asked_while_a_batch_is_under_way_goes_in_the_next_one(wire: Wire) -> None:
    wire.open.clear()
    asking = [asyncio.ensure_future(wire.near.ask("note", number)) for number in range(100)]
    await settle()
    later = [asyncio.ensure_future(wire.near.ask("note", number)) for number in range(100, 150)]
    await settle()
    wire.open.set()
    await asyncio.gather(*asking, *later)
    assert wire.answerer.notes == list(range(150))
    assert wire.there == [100, 50]
    assert len(wire.back) < 10


async def test_many_answers_come_in_their_order_and_in_few_batches(wire: Wire) -> None:
    one, other = await asyncio.gather(
        collect(wire.near.stream("count", 500)), collect(wire.near.stream("count", 300))
    )
    assert one == [b"%d" % number for number in range(500)]
    assert other == one[:300]
    assert len(wire.back) < 20


async def test_a_question_that_breaks_is_its_own_failure_and_tells_no_words_of_it(wire: Wire) -> None:
    waiting = asyncio.ensure_future(wire.near.ask("wait"))
    with pytest.raises(Unanswered, match=r"over 'fail': KeyError in test_both_ends\.py, line \d+") as told:
        await wire.near.ask("fail")
    assert SECRET not in str(told.value)
    late = wire.near.stream("fail_late")
    assert await anext(late) == b"one"
    with pytest.raises(Unanswered, match="broke over 'fail_late': KeyError"):
        await anext(late)
    with pytest.raises(Unanswered, match="cancelled"):
        await wire.near.ask("give_up")
    with pytest.raises(Unanswered, match="broke over 'no_such_thing': AttributeError"):
        await wire.near.ask("no_such_thing")
    wire.answerer.go.set()
    assert await waiting == b"went"


async def test_everybody_who_waits_hears_of_a_death_at_once_and_whoever_asks_later(wire: Wire) -> None:
    stream = wire.near.stream("pieces", "one", 100)
    assert await anext(stream)
    waiting = [asyncio.ensure_future(wire.near.ask(name)) for name in ("wait", "stay", "stay")]
    await settle()
    wire.death.set_exception(OSError("it was killed"))
    async with asyncio.timeout(5):
        for each in waiting:
            with pytest.raises(Unanswered, match="it was killed"):
                await each
        with pytest.raises(Unanswered, match="it was killed"):
            await collect(stream)
        with pytest.raises(Unanswered, match="it was killed"):
            await wire.near.ask("echo")


async def test_a_death_is_heard_of_while_a_batch_does_not_get_there(wire: Wire) -> None:
    wire.open.clear()
    waiting = asyncio.ensure_future(wire.near.ask("echo"))
    await settle()
    wire.death.set_exception(OSError("it was killed"))
    async with asyncio.timeout(5):
        with pytest.raises(Unanswered, match="it was killed"):
            await waiting


async def test_what_came_before_a_death_is_heard(wire: Wire) -> None:
    stream = wire.near.stream("count", 3)
    assert await anext(stream) == b"0"
    await settle()
    wire.death.set_exception(OSError("it was killed"))
    await settle()
    assert await collect(stream) == [b"1", b"2"]


@pytest.mark.parametrize("batch", [b"", b"\xc1", b"\x91\x92\x01\xa5never"])
async def test_bytes_that_are_no_batch_cut_the_wire(wire: Wire, batch: bytes) -> None:
    waiting = asyncio.ensure_future(wire.near.ask("stay"))
    await settle()
    wire.death.set_result(batch)
    async with asyncio.timeout(5):
        with pytest.raises(Unanswered) as told:
            await waiting
    assert isinstance(told.value.__cause__, msgspec.DecodeError)
    with pytest.raises(msgspec.DecodeError):
        wire.far.hear(batch)


async def test_who_is_cancelled_leaves_the_others_alone(wire: Wire) -> None:
    first, second = (asyncio.ensure_future(wire.near.ask("wait")) for _ in range(2))
    await settle()
    first.cancel()
    await asyncio.wait({first})
    assert first.cancelled()
    wire.answerer.go.set()
    assert await second == b"went"
    assert wire.unwanted == 1
    assert await wire.near.ask("echo") == b"()"


async def test_a_stream_that_is_left_is_said_to_its_end_and_dropped(wire: Wire) -> None:
    async with aclosing(wire.near.stream("pieces", "left", 50)) as stream:
        assert await anext(stream)
    assert await wire.near.ask("echo") == b"()"
    await settle()
    assert wire.answerer.ended == ["left"]
    assert wire.answerer.said["left"] == 50
    assert wire.unwanted == 1
    assert sum(wire.sizes) < 5 * len(PIECE)


async def test_who_reads_slowly_is_not_flooded_and_holds_nobody_up(wire: Wire) -> None:
    slow = wire.near.stream("pieces", "slow", 40)
    assert await anext(slow) == b"0" + PIECE
    await settle()
    assert sum(wire.sizes) < 3 * len(PIECE)
    quick = await collect(wire.near.stream("pieces", "quick", 20))
    assert quick == [b"%d" % number + PIECE for number in range(20)]
    assert await wire.near.ask("echo") == b"()"
    assert sum(wire.sizes) < 24 * len(PIECE)
    assert await collect(slow) == [b"%d" % number + PIECE for number in range(1, 40)]


async def test_an_answer_does_not_wait_behind_files_of_many_others(wire: Wire) -> None:
    streams = [wire.near.stream("pieces", str(number), 8) for number in range(20)]
    reading = [asyncio.ensure_future(collect(stream)) for stream in streams]
    await settle()
    before = len(wire.back)
    assert await wire.near.ask("echo") == b"()"
    assert len(wire.back) - before <= 7  # each of the others has its turn once
    assert [len(each) for each in await asyncio.gather(*reading)] == [8] * 20


async def test_no_batch_is_larger_than_what_one_more_frame_makes_it(wire: Wire) -> None:
    streams = [wire.near.stream("pieces", str(number), 3) for number in range(20)]
    asking = [wire.near.ask("give_back", PIECE) for _ in range(20)]
    await asyncio.gather(*map(collect, streams), *asking)
    assert BATCH_BYTES <= max(wire.sizes) < BATCH_BYTES + len(PIECE) + 1000
