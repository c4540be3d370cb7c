"""Images: found by name, pulled or built where they are missing, and from then on known by their digest.

Rules: what a name meant when it was first resolved is what every container of the run is made from; one
that was removed meanwhile is pulled again by its digest. At most three are pulled at once; a registry that
asks for patience gets it. Only images that were pulled here are ever removed again, and only where
`prune_images` asks for it.
"""

import asyncio
import io
import logging
import tarfile
import time
from collections import Counter, defaultdict, deque
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Final

from labrunner.errors import SandboxFailed
from labrunner.experiment.resolved import Folder, SandboxPlan
from labrunner.policy.backoff import wait_s
from labrunner.sandbox.docker.engine.arrival import PullProgress
from labrunner.sandbox.docker.engine.client import Engine
from labrunner.sandbox.docker.engine.engine_errors import EngineRefused
from labrunner.sandbox.docker.engine.replies import ImageFacts

PULLS_AT_ONCE: Final = 3
PULL_TRIES: Final = 6
FIRST_PAUSE_S: Final = 4.0
TOO_MANY: Final = 429
TOO_MANY_CODE: Final = "toomanyrequests"
"""The registries' own code for it: older engines pass it on without the status."""
BUILT: Final = "labrunner-build"
SHOWN_LINES: Final = 12
"""How much of a failed build's output is told."""

_log = logging.getLogger("labrunner.images")


class Images:
    """The images of one run."""

    def __init__(self, engine: Engine, pause: Callable[[float], Awaitable[None]] = asyncio.sleep) -> None:
        """Look at nothing yet."""
        self._engine = engine
        self._pause = pause
        self._found: dict[str, ImageFacts] = {}
        self._meant: dict[str, str] = {}
        """What names of images that were pulled here and removed again have meant."""
        self._pulled: dict[str, SandboxPlan] = {}
        self._uses: Counter[str] = Counter()
        self._was_used = False
        self.rest()

    def rest(self) -> None:
        """Let go of the event loop; what names mean stays known."""
        self._locks: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._pulls = asyncio.Semaphore(PULLS_AT_ONCE)

    async def resolve(self, plan: SandboxPlan) -> ImageFacts:
        """The image of a plan, by its digest; pulled or built if it must be."""
        name = name_of(plan)
        async with self._locks[name]:
            if name not in self._found:
                self._found[name] = await self._find(plan, name)
            return self._found[name]

    def known_env(self, plan: SandboxPlan) -> Mapping[str, str]:
        """The variables of a plan's image; none while it is not known."""
        is_named = plan.image is not None or plan.build is not None
        found = self._found.get(name_of(plan)) if is_named else None
        return {} if found is None else found.env

    async def is_deferred(self, plan: SandboxPlan) -> bool:
        """Whether an image is to be pulled only when a trial needs it."""
        if plan.pull != "lazy" or plan.build is not None or (name := name_of(plan)) in self._found:
            return False
        try:
            await self._engine.image(self._meant.get(name, name))
        except EngineRefused as refusal:
            if refusal.is_not_found:
                return True
            raise
        return False

    async def take(self, plan: SandboxPlan) -> ImageFacts:
        """Resolve an image, and keep it until it is given back."""
        self.hold(plan)
        return await self.resolve(plan)

    def hold(self, plan: SandboxPlan) -> None:
        """Keep an image of which there is a container, until it is given back."""
        self._uses[name_of(plan)] += 1
        self._was_used = True

    async def give_back(self, plan: SandboxPlan) -> None:
        """Say that a container of this image is gone. One that was pulled just for it may go, too."""
        name = name_of(plan)
        self._uses[name] -= 1
        if plan.pull == "lazy" and self._uses[name] <= 0:
            await self._prune(name)

    async def prune(self) -> None:
        """Remove the images that were pulled here and are not to stay, if anything has come of them."""
        for name in list(self._pulled) if self._was_used else ():
            await self._prune(name)

    async def _prune(self, name: str) -> None:
        async with self._locks[name]:
            if name in self._pulled and self._pulled[name].prune_images:
                await self._engine.remove_image(self._meant.get(name, name))
                del self._pulled[name]
                # Nothing was found where the engine went away right after the pull.
                found = self._found.pop(name, None)
                if found is not None and found.repo_digest is not None:
                    self._meant[name] = found.repo_digest

    async def _find(self, plan: SandboxPlan, name: str) -> ImageFacts:
        meant = self._meant.get(name, name)
        try:
            return await self._engine.image(meant)
        except EngineRefused as refusal:
            if not refusal.is_not_found:
                raise
        if plan.build is None and plan.pull == "never":
            raise SandboxFailed("image_missing", f"image {name} is not there, and sandbox.pull says never")
        try:
            async with asyncio.timeout(plan.build_timeout_s):
                await (self._pull(meant) if plan.build is None else self._build(plan.build, name))
        except TimeoutError:
            told = (
                f"image {name} was not there after {plan.build_timeout_s:g} s, which build_timeout_s allows"
            )
            raise SandboxFailed("image_missing", told) from None
        if plan.build is None:
            self._pulled[name] = plan
        return await self._engine.image(meant)

    async def _pull(self, name: str) -> None:
        for before in range(PULL_TRIES):
            try:
                async with self._pulls:
                    await self._pull_once(name)
                return
            except EngineRefused as refusal:
                if not _asks_for_patience(refusal) or before == PULL_TRIES - 1:
                    told = f"{refusal}; pull or build it by hand, or set sandbox.build"
                    raise SandboxFailed("image_missing", told) from refusal
            pause_s = wait_s(before, first_s=FIRST_PAUSE_S)
            _log.info("%s: the registry asks for patience, waiting %.0f s", name, pause_s)
            await self._pause(pause_s)

    async def _pull_once(self, name: str) -> None:
        _log.info("pulling %s", name)
        arrival = PullProgress(told_at=time.monotonic())
        async for news in self._engine.pull(name):
            for line in arrival.hear(news, time.monotonic()):
                _log.info("%s: %s", name, line)

    async def _build(self, folder: Folder, name: str) -> None:
        if not (Path(folder.path) / "Dockerfile").is_file():
            raise SandboxFailed("build", f"sandbox.build: there is no Dockerfile in {folder.path}")
        _log.info("building %s from %s", name, folder.path)
        archive = await asyncio.to_thread(_pack, Path(folder.path))
        output = deque[str](maxlen=SHOWN_LINES)
        try:
            async for line in self._engine.build(archive, name, {"labrunner.build": folder.digest}):
                output.append(line)
                if line.startswith("Step "):
                    _log.info("%s", line)
        except EngineRefused as refusal:
            told = f"sandbox.build: {folder.path}: {refusal}; its last output:"
            raise SandboxFailed("build", "\n  ".join([told, *output])) from refusal


def name_of(plan: SandboxPlan) -> str:
    """The name under which the engine knows a plan's image."""
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
