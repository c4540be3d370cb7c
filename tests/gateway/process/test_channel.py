import asyncio
import socket

import pytest

from labrunner.gateway.process.channel import Channel


async def test_who_is_cancelled_while_it_closes_leaves_the_others_to_close_it() -> None:
    here, there = socket.socketpair()
    with there:
        channel = Channel(*await asyncio.open_unix_connection(sock=here))
        first = asyncio.ensure_future(channel.close())
        await asyncio.sleep(0)
        first.cancel()
        await channel.close()
        with pytest.raises(asyncio.CancelledError):
            await first
