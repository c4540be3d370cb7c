"""What has changed, told to every page that listens: names of runs, never their data.

Rules: files are looked at a few times a second, by one thread for all pages, and only while somebody
listens. A page that does not take its news loses the older ones: they only say that something changed.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Final

from labrunner.view.seen.figuring import Signature
from labrunner.view.seen.lookout import Lookout

LOOK_S: Final = 0.5
MOST_NEWS: Final = 100


class Feed:
    """News of one folder of runs."""

    def __init__(self, lookout: Lookout) -> None:
        """Tell what this sees."""
        self._lookout = lookout
        self._listeners: set[asyncio.Queue[str]] = set()
        self._is_heard = asyncio.Event()

    @property
    def is_heard(self) -> bool:
        """Whether a page listens."""
        return bool(self._listeners)

    @asynccontextmanager
    async def listen(self) -> AsyncIterator["asyncio.Queue[str]"]:
        """Names of runs that have changed, until the context ends."""
        news: asyncio.Queue[str] = asyncio.Queue(MOST_NEWS)
        self._listeners.add(news)
        self._is_heard.set()
        try:
            yield news
        finally:
            self._listeners.discard(news)
            if not self._listeners:
                self._is_heard.clear()

    async def watch(self) -> None:
        """Look for changes, for ever."""
        known: dict[str, Signature] | None = None
        while True:
            if not self._listeners:
                known = None  # whoever comes next begins with what is there then
                await self._is_heard.wait()
            seen = await asyncio.to_thread(self._lookout.signatures)
            for name in () if known is None else find_changed(known, seen):
                self._tell(name)
            known = seen
            await asyncio.sleep(LOOK_S)

    def _tell(self, name: str) -> None:
        for news in self._listeners:
            if news.full():
                news.get_nowait()
            news.put_nowait(name)


def find_changed(known: Mapping[str, Signature], seen: Mapping[str, Signature]) -> list[str]:
    """Runs that came, went or changed."""
    return sorted(name for name in seen.keys() | known.keys() if seen.get(name) != known.get(name))
