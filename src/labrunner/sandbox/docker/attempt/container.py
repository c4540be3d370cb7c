"""One container under our eyes: started, told things, and watched until its wrapper or the engine tells more.

Rules: a hint on its standard output only makes us look; what it says is in its notes. An engine that goes
away is waited for: whether its containers lived is for the engine to say. That it was away is remembered,
because a container that died meanwhile was not ended by what ran in it.
"""

import asyncio
import hashlib
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from labrunner.errors import SandboxFailed
from labrunner.sandbox.docker.engine.client import Engine
from labrunner.sandbox.docker.engine.engine_errors import EngineGone, EngineRefused
from labrunner.sandbox.docker.engine.hijacked import Attachment
from labrunner.sandbox.docker.engine.hostview import is_of
from labrunner.sandbox.docker.engine.reconnect import PAUSE_S, outlast
from labrunner.sandbox.docker.engine.replies import ContainerState
from labrunner.sandbox.docker.wrapper.notes import Note, read_note
from labrunner.sandbox.door import Doors

LOOK_EVERY_S: Final = 1.0
"""Hints come at once; this is for the ones that got lost."""
ASK_EVERY_S: Final = 10.0
FLOOD_S: Final = 0.002
"""A pause after each hint: whoever floods us with them waits, we do not."""
END_S: Final = 30.0
"""How long a container that is about to end may take, and then one that was killed."""


SAID: Final = 2000
"""How much of a complaint is told."""


class Container:
    """A container that exists."""

    def __init__(self, engine: Engine, id: str, ctl: Path, seed: str, life: int = 0) -> None:
        """Take a container, running or not; `life` counts how often it was started again."""
        self.engine = engine
        self.id = id
        self.life = life
        self.engine_was_away = False
        self._seed = seed
        self._ctl = ctl
        self._attachment: Attachment | None = None

    @property
    def nonce(self) -> str:
        """What the wrapper's words of this life are known by."""
        return make_nonce(self._seed, self.life)

    async def start(self) -> None:
        """Start it, with patience: before it is told anything, it may be started twice."""
        await outlast(self._start, told=self._engine_is_away)

    async def _start(self) -> None:
        """Start it. Its streams are ours before it runs, so that nothing is missed."""
        await self.detach()
        self._attachment = await self.engine.attach(self.id)
        await self.engine.start(self.id)

    async def tell(self, text: str) -> None:
        """Write to its standard input."""
        if self._attachment is None:
            self._attachment = await self.engine.attach(self.id)
        await self._attachment.send(text)

    async def open_doors(self, doors: Doors) -> None:
        """Open doors in its network, before it is told what they are for.

        The number that the engine gives for its first process is believed only if the kernel of this host
        says that it is the container's: on another host it is somebody else's.
        """
        state = await self.look()
        if not state.is_alive:
            return  # whoever waits for it finds out why
        if not is_of(self.id, state.pid):
            told = "the engine's processes are not those of this host, so nothing is let into its networks"
            raise SandboxFailed("network", f"{told}: run lab where the engine runs, or use bubblewrap")
        await doors.open(state.pid)

    async def detach(self) -> None:
        """Let go of its streams; it goes on."""
        if self._attachment is not None:
            self._attachment.close()
            self._attachment = None

    def note(self) -> Note:
        """How far its wrapper says it is."""
        return read_note(self._ctl, self.nonce)

    async def until(self, is_wanted: Callable[[Note], bool]) -> Note | ContainerState:
        """Wait for a note of a kind; a state when it has ended without one."""
        asked_at = time.monotonic()
        while True:
            note = self.note()
            if is_wanted(note):
                return note
            is_open = await self._wait_for_hint()
            if is_open and time.monotonic() - asked_at < ASK_EVERY_S:
                continue
            state = await self.look()
            asked_at = time.monotonic()
            if not state.is_alive:
                note = self.note()
                return note if is_wanted(note) else state
            if not is_open:
                await self._attach_again()

    async def ended(self) -> ContainerState:
        """Wait until it has ended, however long that takes: whoever waits sets a limit, or calls `end`."""
        while True:
            try:
                await self.engine.wait(self.id)
            except EngineGone:
                await asyncio.sleep(PAUSE_S)
            except EngineRefused:
                pass  # looking tells more
            state = await self.look()
            if not state.is_alive:
                return state

    async def end(self, *, patience_s: float = 0.0) -> ContainerState:
        """See it end: by itself, if it does so in this time, else killed."""
        if patience_s and (state := await self._ended_within(patience_s)) is not None:
            return state
        await outlast(lambda: self.engine.kill(self.id), told=self._engine_is_away)
        if (state := await self._ended_within(END_S)) is not None:
            return state
        raise SandboxFailed("unkillable", f"the container did not end within {END_S:.0f} s of being killed")

    async def _ended_within(self, limit_s: float) -> ContainerState | None:
        try:
            async with asyncio.timeout(limit_s):
                return await self.ended()
        except TimeoutError:
            return None

    async def complaint(self) -> str:
        """What its first process said about trouble, before an agent could say anything."""
        said = await outlast(lambda: self.engine.said(self.id, "stderr"), told=self._engine_is_away)
        return said.decode(errors="replace").strip()[-SAID:]

    async def look(self) -> ContainerState:
        """Ask the engine how it is, with patience."""
        try:
            return await outlast(lambda: self.engine.look(self.id), told=self._engine_is_away)
        except EngineRefused as refusal:
            if not refusal.is_not_found:
                raise
            problem = "the container is gone: somebody else has removed it"
            raise SandboxFailed("container_gone", problem) from refusal

    def _engine_is_away(self) -> None:
        self.engine_was_away = True

    async def _attach_again(self) -> None:
        """Take hold of the streams of a container that seems to live: it may be just ending."""
        await self.detach()
        await asyncio.sleep(FLOOD_S)
        try:
            self._attachment = await self.engine.attach(self.id)
        except EngineGone:
            self._engine_is_away()
            await asyncio.sleep(PAUSE_S)
        except EngineRefused:
            await asyncio.sleep(FLOOD_S)

    async def _wait_for_hint(self) -> bool:
        """Wait for a hint, or a while; False when the streams have ended."""
        if self._attachment is None:
            return False
        try:
            async with asyncio.timeout(LOOK_EVERY_S):
                if not await self._attachment.hint():
                    await self.detach()
                    return False
        except TimeoutError:
            return True
        await asyncio.sleep(FLOOD_S)
        return True


def make_nonce(seed: str, life: int) -> str:
    """The nonce of one life of a container: who has the seed can tell it, no other life can."""
    return hashlib.sha256(f"{life} {seed}".encode()).hexdigest()[:32]
