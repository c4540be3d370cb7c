"""Puts a layer of work into another container of the same image: it is the workspace again.

The container has been started, and nothing of anybody runs in it yet. Rules: what was removed goes first,
while all that lies there is the image's own, and never through a link; then the layer is unpacked, which is
read as strictly as a stranger's. An engine that refuses to unpack it, with room on its disk, refuses what an
agent built.
"""

import asyncio
import os
from collections.abc import AsyncGenerator, Iterable, Iterator
from contextlib import ExitStack
from itertools import groupby
from pathlib import Path
from typing import Final

from labrunner.errors import SandboxFailed, SystemBroken
from labrunner.files.layering.layerfile import LayerHead, is_at, read_path
from labrunner.files.layering.layerreading import open_layer, stream_tar
from labrunner.files.layering.memberreading import LayerRefused
from labrunner.sandbox.docker.engine.client import Engine
from labrunner.sandbox.docker.engine.engine_errors import EngineRefused
from labrunner.sandbox.docker.wrapper.script import quote
from labrunner.sandbox.processes.room import DISK_FULL, look_at

SCRIPT_BYTES: Final = 60_000
"""Of one command: kernels take 128 KiB for a word."""
REMOVAL_S: Final = 300.0
_THERE: Final = 'cd -P -- "$p" 2>/dev/null && [ "$PWD" = "$p" ]'
"""Goes to a folder, unless a link leads there."""
END: Final = 1024
"""Bytes of an archive with nothing in it."""


async def put_layer(
    engine: Engine, container: str, layer: Path, *, disks: tuple[Path, ...] = (), without: str | None = None
) -> None:
    """Put a layer into a container that was started and does nothing yet; `without` one path of it.

    Raises SystemBroken for what the engine can't unpack, SandboxFailed for everything else.
    """
    try:
        with ExitStack() as stack:
            reader = await asyncio.to_thread(stack.enter_context, open_layer(layer))
            for script in removal_scripts(reader.head, without):
                await _remove(engine, container, script)
            await _unpack(engine, container, _Sending(stream_tar(reader, without)), disks)
    except (LayerRefused, OSError) as error:
        raise SandboxFailed("layer_unreadable", f"reading {layer}: {error}") from error


async def _remove(engine: Engine, container: str, script: str) -> None:
    status, said = await engine.carry_out(container, ("/bin/sh", "-c", script), REMOVAL_S)
    if status != 0:
        told = f"exit status {status}: {said.strip()}"
        raise SandboxFailed("layer", f"removing what an agent had removed: {told}")


async def _unpack(engine: Engine, container: str, sending: "_Sending", disks: tuple[Path, ...]) -> None:
    first = await asyncio.to_thread(next, sending.pieces, b"")
    if len(first) <= END:
        return
    try:
        await engine.unpack(container, "/", sending.go_on(first))
    except SandboxFailed as failure:
        if sending.problem is not None:
            raise sending.problem from failure
        raise _blame(failure, disks) from failure


def _blame(failure: SandboxFailed, disks: tuple[Path, ...]) -> SandboxFailed:
    """Whose fault it is that an archive was not unpacked."""
    is_elsewhere = not disks or not all(map(os.path.lexists, disks))
    if is_elsewhere or not isinstance(failure, EngineRefused) or failure.is_not_found:
        return failure  # whether a disk is full somewhere else can't be known here
    for disk in disks:
        if look_at(disk):
            return SandboxFailed(DISK_FULL, f"{failure}; the disk of {disk} is full")
    return SystemBroken("layer_unfit", f"the engine can't unpack what the agent left: {failure}")


class _Sending:
    """An archive on its way to the engine."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self.pieces = pieces
        self.problem: LayerRefused | OSError | None = None
        """Why it could not be read to its end; whoever sends it hears only that it was cut off."""

    async def go_on(self, first: bytes) -> AsyncGenerator[bytes, None]:
        piece = first
        while piece:
            yield piece
            try:
                piece = await asyncio.to_thread(next, self.pieces, b"")
            except (LayerRefused, OSError) as error:
                self.problem = error
                raise


def removal_scripts(head: LayerHead, without: str | None = None) -> Iterator[str]:
    """Commands that remove what is gone, none too long; each goes only where no link leads."""
    lines, size = list[str](), 0
    for line in _lines(head, without):
        if lines and size + len(line) > SCRIPT_BYTES:
            yield _join(lines)
            lines, size = [], 0
        lines.append(line)
        size += len(line)
    if lines:
        yield _join(lines)


def _join(lines: Iterable[str]) -> str:
    return "\n".join(("bad=0", *lines, 'exit "$bad"'))


def _lines(head: LayerHead, without: str | None) -> Iterator[str]:
    gone = [path for path in map(read_path, head.removed) if not is_at(path, without)]
    if without is not None and "" in gone:
        gone = []
        each = f'for n in * .[!.]* ..?*; do [ "$n" = {quote(without)} ] || rm -rf -- "$n" || bad=1; done'
        yield f"{_give('p', head.folder)}\n{_THERE} && {each}"
    full = [f"{head.folder}/{path}" if path else head.folder for path in gone]
    split = sorted((path.rpartition("/")[0] or "/", path.rpartition("/")[2]) for path in full)
    for folder, group in groupby(split, key=lambda pair: pair[0]):
        for some in _in_lots([name for _, name in group]):
            given = "\n".join(_give(f"n{number}", name) for number, name in enumerate(some))
            words = " ".join(f'"$n{number}"' for number in range(len(some)))
            yield f"{_give('p', folder)}\n{given}\nif {_THERE}; then rm -rf -- {words} || bad=1; fi"


def _in_lots(names: list[str]) -> Iterator[list[str]]:
    lot, size = list[str](), 0
    for name in names:
        spelt = 5 * len(name) + 24
        if lot and size + spelt > SCRIPT_BYTES:
            yield lot
            lot, size = [], 0
        lot.append(name)
        size += spelt
    yield lot


def _give(name: str, text: str) -> str:
    """Give a variable of sh a value; bytes that are no text are spelled out: commands are sent as text."""
    raw = text.encode(errors="surrogateescape")
    try:
        return f"{name}={quote(raw.decode())}"
    except UnicodeDecodeError:
        spelt = "".join(f"\\0{byte:03o}" for byte in raw)
        # The point keeps a line's end at the end of a name.
        return f"{name}=$(printf '%b.' {quote(spelt)}); {name}=${{{name}%.}}"
