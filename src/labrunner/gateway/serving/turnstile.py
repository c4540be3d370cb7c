"""Where requests to one provider wait for their turn, whichever entry of `models:` they are for.

Rules: never more than so many at once. A provider that asks to be left alone for a while is left alone by
all.
"""

import asyncio


class Turnstile:
    """One provider's places."""

    def __init__(self, most: int) -> None:
        """All places are free."""
        self.most = most
        self.slots = asyncio.Semaphore(most)
        self._resume_at = 0.0

    def pause(self, seconds: float) -> None:
        """Let nobody through for a while."""
        self._resume_at = max(self._resume_at, asyncio.get_running_loop().time() + seconds)

    async def wait_turn(self) -> None:
        """Until nobody asks any more to be left alone."""
        while True:
            left = self._resume_at - asyncio.get_running_loop().time()
            if left <= 0:
                return
            await asyncio.sleep(left)
