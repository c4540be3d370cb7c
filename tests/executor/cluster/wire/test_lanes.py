"""Answers on their way out of a worker: whose turn it is, what waits, and what is dropped."""

import asyncio

import pytest

from labrunner.executor.cluster.wire.frames import WINDOW_BYTES, Said
from labrunner.executor.cluster.wire.lanes import AnswerLanes

PIECE = bytes(WINDOW_BYTES)


def make_lanes(*numbers: int) -> AnswerLanes:
    lanes = AnswerLanes()
    for number in numbers:
        lanes.open(number)
    return lanes


async def take(lanes: AnswerLanes) -> list[tuple[int, bytes]]:
    return [(said.number, said.data) for said in await lanes.take()]


async def test_lanes_take_turns_whoever_came_first() -> None:
    lanes = make_lanes(1, 2, 3)
    for number in (1, 2, 3):
        for data in (b"a", b"b"):
            lanes.put(Said(number, "more", data))
    assert await take(lanes) == [(1, b"a"), (2, b"a"), (3, b"a"), (1, b"b"), (2, b"b"), (3, b"b")]


async def test_a_lane_goes_on_once_its_reader_did() -> None:
    lanes = make_lanes(1)
    for data in (PIECE, b"then", b"last"):
        lanes.put(Said(1, "more", data))
    assert await take(lanes) == [(1, PIECE)]
    taking = asyncio.ensure_future(take(lanes))
    await asyncio.sleep(0)
    assert not taking.done()
    lanes.widen(1, len(PIECE))
    assert await taking == [(1, b"then"), (1, b"last")]


@pytest.mark.parametrize("before", [0, 3])
async def test_what_nobody_waits_for_is_dropped_and_its_lane_ends_with_the_answer(before: int) -> None:
    lanes = make_lanes(1, 2)
    for _ in range(before):
        lanes.put(Said(1, "more", b"unheard"))
    lanes.leave(1)
    lanes.put(Said(1, "more", b"unheard"))
    lanes.put(Said(2, "more", b"heard"))
    assert await take(lanes) == [(2, b"heard")]
    assert len(lanes) == 2
    lanes.put(Said(1, "last"))
    assert len(lanes) == 1


async def test_an_answer_that_nobody_waits_for_any_more_is_not_kept() -> None:
    lanes = make_lanes(1, 2)
    lanes.put(Said(1, "more", PIECE))
    lanes.put(Said(1, "last"))
    lanes.leave(1)
    assert len(lanes) == 1
    lanes.put(Said(2, "last", b"heard"))
    assert await take(lanes) == [(2, b"heard")]
    assert len(lanes) == 0
    lanes.widen(1, 5)
    lanes.leave(1)  # said when the answer had come already
    assert len(lanes) == 0
