"""Takes the layer of an attempt at its barrier, from outside: nothing of the agent runs any more.

Rules: it is there whole or not at all, and taken again by whoever adopts the attempt before its record was
written. What an agent built so that it can't be taken (too much, too deep for the engine) is its own doing:
told in the note, and no error. Read from the container's layer where this host lets us; else by the engine's
word.
"""

import asyncio
import os
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath
from threading import Event
from typing import Final

from labrunner.errors import SandboxFailed
from labrunner.files.layering.layerfile import LayerHead, LayerTooLarge, spell_path, write_layer
from labrunner.files.layering.layernote import LAYER, PATCH, LayerNote
from labrunner.files.strangers.removal import remove
from labrunner.files.uninterrupted import see_out
from labrunner.sandbox.docker.engine.client import Engine
from labrunner.sandbox.docker.engine.engine_errors import EngineRefused
from labrunner.sandbox.docker.engine.replies import ContainerChange, ImageFacts
from labrunner.sandbox.docker.watching.contents import read_archive
from labrunner.sandbox.docker.watching.pristine import unstarted
from labrunner.sandbox.docker.worklayer.listedtaking import (
    ListedWork,
    ListedWriting,
    is_below,
    list_work,
    outermost,
    read_names,
)
from labrunner.sandbox.docker.worklayer.uppertaking import CannotTell, UpperWork, resolve
from labrunner.sandbox.door import SandboxSpec
from labrunner.sandbox.paths import can_be_carried

CUT: Final = 200
MOST_LINKS: Final = 40


def is_layer_wanted(spec: SandboxSpec, *, is_left: bool | None = None) -> bool:
    """Whether somebody wants what the agent leaves in a folder of its image beyond its container.

    Before its changes of the system are known, nobody can say whether the container is left (None).
    """
    asked = spec.demands
    may_be_left = asked.renews_changed if is_left is None else is_left
    is_asked = asked.keeps_work or asked.fresh_grader or may_be_left or PATCH in asked.collect
    return is_asked and can_be_carried(spec.plan.workdir)


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerTaker:
    """One attempt's."""

    engine: Engine
    container: str
    image: ImageFacts
    spec: SandboxSpec
    most: tuple[int, int]
    """Bytes and entries that a layer may hold."""
    upper: Path | None
    """The container's own layer, where its host tells of one that is as the container sees it."""
    lower: tuple[Path, ...] = ()
    listed: Sequence[ContainerChange] | None = None
    """The engine's list of changes, where it was asked for one behind the barrier."""

    async def take(self) -> LayerNote:
        """Take what was changed below the working directory; a note with a problem where it can't be had."""
        with SandboxFailed.during("layer", f"taking what was changed in {self.workdir} of a container"):
            remove(self._target)  # of a runner before us, who died before anybody knew of it
            try:
                return await self._take()
            except LayerTooLarge:
                mebibytes, files = self.most[0] >> 20, self.most[1]
                told = f"{self.workdir} was changed by more than its limits: {mebibytes} MiB, {files} files"
                return LayerNote(problem=told)
            except EngineRefused as refusal:
                if refusal.is_not_found:
                    raise
                return LayerNote(problem=f"the engine could not read it: {str(refusal)[:CUT]}")

    async def _take(self) -> LayerNote:
        if self.upper is not None and os.access(self.upper, os.R_OK | os.X_OK) and not self._mounted:
            try:
                halt = Event()
                return await see_out(asyncio.to_thread(self._take_from_upper, self.upper, halt), halt.set)
            except CannotTell:
                pass
        return await self._take_listed()

    def _take_from_upper(self, upper: Path, halt: Event) -> LayerNote:
        folder = resolve(self.lower, self.workdir)
        work = UpperWork(upper=upper, lower=self.lower, folder=folder)
        head = self._head(folder, work.find_removed())
        with write_layer(self._target, head, self.most, halt) as writer:
            work.write(writer)
        return writer.note

    async def _take_listed(self) -> LayerNote:
        folder = await self._resolve()
        listed = self.listed if self.listed is not None else await self.engine.changes(self.container)
        work = list_work(listed, folder, self._mounted)
        removed = (*work.removed, *await self._removed_of_volumes(work))
        head = self._head(folder, ("",) if "" in removed else outermost(removed))
        halt = Event()
        with ExitStack() as stack:
            writer = stack.enter_context(write_layer(self._target, head, self.most, halt))
            writing = ListedWriting(work=work, writer=writer, hidden=self._hidden_below(folder))
            if work.changed:
                await self._read(folder, writing)
            # In a thread: much may have to be written until it is durable, and others are at work.
            await see_out(asyncio.to_thread(stack.pop_all().close), halt.set)
        return writer.note

    async def _read(self, folder: str, writing: ListedWriting) -> None:
        try:
            await read_archive(self.engine.archive(self.container, folder), folder, writing.read)
        except EngineRefused as refusal:
            if not refusal.is_not_found:  # gone, with all that is listed below it
                raise
        for path, member in writing.lost:
            if writing.lacks_first(path, member.linkname):
                await self._read_one(folder, member.linkname, writing)
            if not writing.link(path, member):
                await self._read_one(folder, path, writing)

    async def _read_one(self, folder: str, path: str, writing: ListedWriting) -> None:
        full = f"{folder}/{path}"
        pieces = self.engine.archive(self.container, full)
        await read_archive(pieces, full, partial(writing.read_lost, path))

    async def _removed_of_volumes(self, work: ListedWork) -> tuple[str, ...]:
        """What is not in the image's volumes any more, which no list tells."""
        found: list[str] = []
        for path in work.whole:
            full = f"{work.folder}/{path}" if path else work.folder
            now = await read_archive(self.engine.archive(self.container, full), full, read_names)
            async with unstarted(self.engine, self.image.id) as pristine:
                before = await read_archive(self.engine.archive(pristine, full), full, read_names)
            found += (f"{path}/{name}" if path else name for name in outermost(before - now) if name)
        return tuple(found)

    def _head(self, folder: str, removed: Sequence[str]) -> LayerHead:
        return LayerHead(folder=folder, image=self.image.id, removed=tuple(map(spell_path, removed)))

    def _hidden_below(self, folder: str) -> tuple[str, ...]:
        return tuple(
            path[len(folder) + 1 :] for path in self.spec.plan.tmpfs if path.startswith(f"{folder}/")
        )

    @property
    def workdir(self) -> str:
        """The folder of the image, as it was asked for."""
        return self.spec.plan.workdir or "/"

    @property
    def _target(self) -> Path:
        return self.spec.folders.root / LAYER

    @property
    def _mounted(self) -> tuple[str, ...]:
        """Volumes of the image in which work is done; the working directory itself where it lies in one."""
        inner = tuple(path for path in self.image.volumes if is_below(path, self.workdir))
        return inner or tuple(self.workdir for path in self.image.volumes if is_below(self.workdir, path))[:1]

    async def _resolve(self) -> str:
        """The working directory without links, as the image has it."""
        async with unstarted(self.engine, self.image.id) as pristine:
            path = PurePosixPath(self.workdir)
            for _ in range(MOST_LINKS):
                if (led := await self._follow(pristine, path)) is None:
                    break
                path = led
        return str(path)

    async def _follow(self, pristine: str, path: PurePosixPath) -> PurePosixPath | None:
        """Where a path leads by the first link in it; None when there is none."""
        for folder in (*reversed(path.parents), path):
            target = await self.engine.link_target(pristine, str(folder)) if folder.name else ""
            if target:
                joined = (folder.parent / target / path.relative_to(folder)).parts
                return PurePosixPath(*_without_dots(joined))
        return None


def _without_dots(parts: Sequence[str]) -> list[str]:
    kept: list[str] = []
    for part in parts:
        if part == "..":
            kept = kept[:1] if len(kept) <= 1 else kept[:-1]
        elif part != ".":
            kept.append(part)
    return kept
