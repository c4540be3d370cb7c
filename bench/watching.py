"""A page of a live run that is looked at and left in turns: `python -m bench.watching URL FOLDER`.

Rules: a process of its own, so that driving a browser is not the run's work. It prints a line of JSON for
each span in which nothing was opened or closed, with whether the page was open. Spans stand as open, left,
left, open: what only grows with the run weighs on both alike. It ends when it is terminated.
"""

import asyncio
import itertools
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec

from tests.kit.browser import page_of

MAP: Final = "document.querySelector('.map canvas')?.height > 100"
SETTLES_S: Final = 1.0
"""After opening or leaving, before a span begins."""
SPAN_S: Final = 2.0
ORDER: Final = (True, False, False, True)


class Span(msgspec.Struct, frozen=True):
    """From when to when, by the machine's monotonic clock, and whether somebody looked."""

    start: float
    end: float
    is_watched: bool


async def watch(url: str, folder: Path) -> None:
    """Look and leave for ever."""
    async with page_of(folder) as page:
        for is_watched in itertools.cycle(ORDER):
            await page.open(url if is_watched else "about:blank")
            if is_watched:
                await page.wait_for(MAP)
            await asyncio.sleep(SETTLES_S)
            start = time.monotonic()
            await asyncio.sleep(SPAN_S)
            _tell(Span(start, time.monotonic(), is_watched))


async def watch_until_told(url: str, folder: Path) -> None:
    """Look and leave until somebody ends this, and end the browser then."""
    watching = asyncio.ensure_future(watch(url, folder))
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, watching.cancel)
    with suppress(asyncio.CancelledError):
        await watching


def _tell(span: Span) -> None:
    sys.stdout.buffer.write(msgspec.json.encode(span) + b"\n")
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    asyncio.run(watch_until_told(sys.argv[1], Path(sys.argv[2])))
