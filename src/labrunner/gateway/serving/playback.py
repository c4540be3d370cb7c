"""A recorded answer, opened as if a provider gave it.

Rule: its bytes are those that came then, not compressed. What broke off breaks off again, and what nobody
waited for is never over.
"""

import asyncio
from collections.abc import AsyncIterator
from typing import Final

from labrunner.gateway.replaying.tape import TapedCall
from labrunner.gateway.serving.upstream import LineBroken, Opened
from labrunner.gateway.streams.eventstream import looks_like_events

PLAYABLE: Final = frozenset({"answered", "error", "cut", "client_gone"})
"""Ends of recorded calls of which there is an answer, or none because nobody waited for it."""


async def open_recorded(taped: TapedCall) -> Opened:
    """Open the answer of a recorded call. Raises StoreError."""
    content = await asyncio.to_thread(taped.read_answer)
    row = taped.row
    if row.status is None:
        await asyncio.get_running_loop().create_future()  # until the client leaves, as it did then
    status = row.status or 200
    headers = [("content-type", _guess_kind(content))]
    if row.error is not None and row.error.retry_after_s is not None:
        headers.append(("retry-after", f"{row.error.retry_after_s:g}"))
    return Opened(status=status, headers=headers, rest=_play(taped, content))


async def _play(taped: TapedCall, content: bytes) -> AsyncIterator[bytes]:
    if content:
        yield content
    if taped.row.end == "client_gone":
        await asyncio.get_running_loop().create_future()
    if taped.row.end == "cut":
        told = taped.row.error.message if taped.row.error else "as it was recorded"
        raise LineBroken(told)


def _guess_kind(content: bytes) -> str:
    """Headers are not recorded: what it is, by how it begins."""
    if looks_like_events(content):
        return "text/event-stream"
    return "application/json" if content.lstrip()[:1] in (b"{", b"[") else "text/plain"
