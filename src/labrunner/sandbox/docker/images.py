"""Images: found by name, pulled or built where they are missing, and from then on known by their digest.

Rules: what a name meant when it was first resolved is what every container of the run is made from. At
most three are pulled at once; a registry that asks for patience gets it. Only images that were pulled here
are ever removed again, and only where `prune_images` asks for it.
"""

import asyncio
import io
import logging
import tarfile
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from labrunner.errors import SandboxFailed
from labrunner.experiment.model import Folder, SandboxPlan
from labrunner.sandbox.docker.answers import ImageFacts
from labrunner.sandbox.docker.blame import EngineRefused
from labrunner.sandbox.docker.engine import Engine

PULLS_AT_ONCE: Final = 3
PULL_TRIES: Final = 6
FIRST_PAUSE_S: Final = 4.0
TOO_MANY: Final = 429
TOO_MANY_CODE: Final = "toomanyrequests"
"""The registries' own code for it: older engines pass it on without the status."""
BUILT: Final = "labrunner-build"

_log = logging.getLogger("labrunner.images")


class Images:
    """The images of one run."""

    def __init__(self, engine: Engine, pause: Callable[[float], Awaitable[None]] = asyncio.sleep) -> None:
        """Look at nothing yet."""
        self._engine = engine
        self._pause = pause
        self._found: dict[str, ImageFacts] = {}
        self._locks: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._pulls = asyncio.Semaphore(PULLS_AT_ONCE)
        self._pulled: set[str] = set()
        self._uses: Counter[str] = Counter()

    async def resolve(self, plan: SandboxPlan) -> ImageFacts:
        """The image of a plan, by its digest; pulled or built if it must be."""
        name = _name(plan)
        async with self._locks[name]:
            if name not in self._found:
                self._found[name] = await self._find(plan, name)
            return self._found[name]

    @asynccontextmanager
    async def used(self, plan: SandboxPlan) -> AsyncIterator[ImageFacts]:
        """Hold an image while a container is made from it and until that is gone."""
        name = _name(plan)
        self._uses[name] += 1
        try:
            yield await self.resolve(plan)
        finally:
            self._uses[name] -= 1

    async def forget(self, plan: SandboxPlan) -> None:
        """Remove an image that was pulled for lack of it, when nothing uses it any more."""
        name = _name(plan)
        if plan.prune_images and plan.pull == "lazy" and not self._uses[name]:
            await self._remove(name)

    async def prune(self) -> None:
        """Remove every image that was pulled here."""
        for name in sorted(self._pulled):
            await self._remove(name)

    async def _remove(self, name: str) -> None:
        async with self._locks[name]:
            if name in self._pulled:
                await self._engine.remove_image(name)
                self._pulled.discard(name)
                self._found.pop(name, None)

    async def _find(self, plan: SandboxPlan, name: str) -> ImageFacts:
        try:
            return await self._engine.image(name)
        except EngineRefused as refusal:
            if not refusal.is_not_found:
                raise
        if plan.build is not None:
            await self._build(plan.build, name)
        elif plan.pull == "never":
            raise SandboxFailed("image_missing", f"image {name} is not there, and sandbox.pull says never")
        else:
            await self._pull(name)
        return await self._engine.image(name)

    async def _pull(self, name: str) -> None:
        wait_s, problem = FIRST_PAUSE_S, EngineRefused(0, f"pulling image {name}", "not tried")
        for _ in range(PULL_TRIES):
            try:
                async with self._pulls:
                    await self._pull_once(name)
            except EngineRefused as refusal:
                problem = refusal
                if not _asks_for_patience(refusal):
                    break
            else:
                self._pulled.add(name)
                return
            _log.info("%s: the registry asks for patience, waiting %.0f s", name, wait_s)
            await self._pause(wait_s)
            wait_s *= 2
        told = f"{problem}; pull or build it by hand, or set sandbox.build"
        raise SandboxFailed("image_missing", told) from problem

    async def _pull_once(self, name: str) -> None:
        _log.info("pulling %s", name)
        told = ""
        async for line in self._engine.pull(name):
            if line != told and line.startswith(("Status", "Digest", "Pulling from")):
                _log.info("%s: %s", name, line)
            told = line

    async def _build(self, folder: Folder, name: str) -> None:
        if not (Path(folder.path) / "Dockerfile").is_file():
            raise SandboxFailed("build", f"sandbox.build: there is no Dockerfile in {folder.path}")
        _log.info("building %s from %s", name, folder.path)
        archive = await asyncio.to_thread(_pack, Path(folder.path))
        await self._engine.build(archive, name, {"labrunner.build": folder.digest})


def _name(plan: SandboxPlan) -> str:
    if plan.build is not None:
        return f"{BUILT}:{plan.build.digest.partition(':')[2][:24]}"
    if plan.image is None:
        raise SandboxFailed(
            "image_missing", "a docker sandbox needs an image: set sandbox.image or the task's"
        )
    return plan.image


def _asks_for_patience(refusal: EngineRefused) -> bool:
    return refusal.status == TOO_MANY or TOO_MANY_CODE in str(refusal)


def _pack(folder: Path) -> io.BytesIO:
    """Make a build context."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        archive.add(folder, arcname=".")
    packed.seek(0)
    return packed
