import asyncio
from dataclasses import dataclass

import pytest

from labrunner.gateway.holders import Holders, TooManyConnections, is_same_token


@dataclass(frozen=True)
class Named:
    token: str


def test_tokens_are_compared_whole() -> None:
    assert is_same_token("tökén", "tökén")
    assert not is_same_token("token", "toke")
    assert not is_same_token("", "token")


def test_who_has_a_token_is_found_by_it_until_dismissed() -> None:
    one, other = Named("a"), Named("b")
    holders = Holders([one, other])
    assert (holders.find(["x", "b"]), holders.find(["x", ""]), holders.find([])) == (other, None, None)
    assert holders.find_only() is None
    holders.remove(other)
    assert (holders.find(["b"]), holders.find_only()) == (None, one)


async def test_only_so_many_at_once_for_each() -> None:
    one, other = Named("a"), Named("b")
    holders = Holders([one, other])

    async def attend(holder: Named, begun: asyncio.Event) -> None:
        with holders.attending(holder, 1):
            begun.set()
            await asyncio.get_running_loop().create_future()

    async with asyncio.TaskGroup() as group:
        tasks = []
        for holder in (one, other):
            begun = asyncio.Event()
            tasks.append(group.create_task(attend(holder, begun)))
            await begun.wait()
        with pytest.raises(TooManyConnections, match="1 connections at once"):
            await attend(one, asyncio.Event())
        await holders.dismiss(one)
        assert [task.done() for task in tasks] == [True, False]
        await holders.dismiss(other)
