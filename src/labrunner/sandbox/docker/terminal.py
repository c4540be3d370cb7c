"""Somebody at a terminal in a running container: the engine makes the terminal, we carry what is typed.

Rule: the command's end is the engine's word. What a command left running may hold its terminal open; that is
not waited for.
"""

import asyncio
from contextlib import suppress
from typing import Any, Final

from labrunner.sandbox.docker.engine.client import Engine
from labrunner.sandbox.docker.engine.engine_errors import EngineGone, EngineRefused
from labrunner.sandbox.docker.engine.hijacked import HijackedStream
from labrunner.sandbox.terminals.person import Person

PIECE: Final = 65536
LOOK_S: Final = 1.0
LEFT_S: Final = 0.5
FIT_TRIES: Final = 40
FIT_S: Final = 0.05


async def carry_terminal(
    engine: Engine, container: str, config: dict[str, Any], person: Person
) -> int | None:
    """Run a command at a terminal; its exit status, None where the container ended with it."""
    told = {"AttachStdin": True, "AttachStdout": True, "AttachStderr": True, "Tty": True}
    call, stream = await engine.open_terminal(container, {**config, **told}, person.size())
    shown = asyncio.ensure_future(_show(stream, person))
    beside = [shown]
    try:
        await _fit(engine, call, person)
        beside += [
            asyncio.ensure_future(_type(stream, person)),
            asyncio.ensure_future(_resize(engine, call, person)),
        ]
        while not shown.done():
            await asyncio.wait([shown], timeout=LOOK_S)
            if not shown.done() and await _find_end(engine, call) is not None:
                await asyncio.wait([shown], timeout=LEFT_S)
                break
        return await _find_end(engine, call)
    finally:
        for task in beside:
            task.cancel()
        await asyncio.wait(beside)
        stream.close()


async def _find_end(engine: Engine, call: str) -> int | None:
    """The status of a command that has ended; None while it runs, or where nobody knows any more."""
    with suppress(EngineGone, EngineRefused):
        return await engine.call_status(call)
    return None


async def _show(stream: HijackedStream, person: Person) -> None:
    with suppress(OSError):
        while data := await stream.reader.read(PIECE):
            person.show(data)


async def _type(stream: HijackedStream, person: Person) -> None:
    with suppress(OSError):
        while data := await person.typed():
            await stream.write_in(data)


async def _resize(engine: Engine, call: str, person: Person) -> None:
    while True:
        await person.resized()
        with suppress(EngineGone, EngineRefused):  # it may be just ending
            await engine.resize_terminal(call, person.size())


async def _fit(engine: Engine, call: str, person: Person) -> None:
    """Give the terminal its first size: older engines take none with a command, and refuse it too early."""
    for _ in range(FIT_TRIES):
        try:
            await engine.resize_terminal(call, person.size())
        except EngineRefused:
            await asyncio.sleep(FIT_S)
        else:
            return
