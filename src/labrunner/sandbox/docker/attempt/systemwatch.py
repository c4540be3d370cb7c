"""Watches a container's system: how it was before the agent, and what the agent changed in it.

Read from the container's layer where this host lets us; asked of the engine elsewhere, or, where changes are
refused, found by comparing every file's content. Volumes of the image are always compared.
"""

import asyncio
from dataclasses import dataclass
from typing import Final

from labrunner.sandbox.docker.attempt.stage import Stage, can_look_into
from labrunner.sandbox.docker.engine.engine_errors import EngineRefused
from labrunner.sandbox.docker.engine.reconnect import outlast
from labrunner.sandbox.docker.watching.baseline import (
    UNKNOWN,
    Baseline,
    Stamps,
    read_baseline,
    since,
    stamp,
    write_baseline,
)
from labrunner.sandbox.docker.watching.contents import Contents, differing, take_prints
from labrunner.sandbox.docker.watching.residue import SCRATCH, changed_system

CUT: Final = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemWatch:
    """One attempt's."""

    stage: Stage

    @property
    def must_note(self) -> bool:
        """Whether how the system was must be known, though no setup has changed it."""
        demands = self.stage.spec.demands
        return demands.system_changes and bool(self._volumes or self._goes_by_content)

    async def note(self, *, after_setup: bool) -> None:
        """Note how the system is; once, because an agent may run when this is asked for again."""
        stage, demands = self.stage, self.stage.spec.demands
        if not demands.system_changes or read_baseline(stage.spec.folders) is not None:
            return
        stamps = contents = None
        if self._goes_by_content:
            before = self._prints("/") if after_setup else self._image_prints()
            contents = dict(await before)
        elif after_setup:
            stamps = await self._stamps()
        noted = Baseline(stamps=stamps, contents=contents, volumes=await self._volume_prints())
        await asyncio.to_thread(write_baseline, stage.spec.folders, noted)

    async def _stamps(self) -> dict[str, int] | None:
        """What setup changed, and when; None where that is not known and something follows from it."""
        stage = self.stage
        if stage.layer is not None:
            return await asyncio.to_thread(stamp, await outlast(stage.changes), stage.layer)
        if stage.spec.demands.tells_setup_apart:
            return None
        return dict.fromkeys(await outlast(stage.changes), UNKNOWN)

    async def changes(self) -> tuple[str, ...] | None:
        """Paths of the system that were changed; None when nobody wants to know."""
        stage = self.stage
        if not stage.spec.demands.system_changes:
            return None
        noted = read_baseline(stage.spec.folders) or Baseline()
        try:
            found = await self._system_changes(noted)
            found += differing(noted.volumes, await self._volume_prints())
        except EngineRefused as refusal:
            # An agent can build what an engine can't list. It is no reason not to judge it.
            return (f"(more than the engine could list: {str(refusal)[:CUT]})",)
        return changed_system(found, self._working)

    async def _system_changes(self, noted: Baseline) -> tuple[str, ...]:
        stage = self.stage
        if noted.contents is not None:
            return self._telling(differing(noted.contents, await self._prints("/")))
        changes = await stage.changes()
        if not changed_system(changes, self._workplaces) and await self._may_be_hidden():
            return self._telling(differing(await self._image_prints(), await self._prints("/")))
        return changes if noted.stamps is None else await self._since(noted.stamps, changes)

    async def _since(self, noted: Stamps, changes: tuple[str, ...]) -> tuple[str, ...]:
        """What was changed after setup; what may be setup's is not, where only a flag follows."""
        stage = self.stage
        if stage.layer is not None:
            changes = await asyncio.to_thread(since, noted, changes, stage.layer)
        if stage.spec.demands.tells_setup_apart:
            return changes
        return tuple(path for path in changes if noted.get(path) != UNKNOWN)

    async def _may_be_hidden(self) -> bool:
        """Whether something was written, sizes and times perhaps set back so that nothing is listed."""
        stage = self.stage
        is_blind = stage.layer is None or not can_look_into(stage.layer)
        if not is_blind or stage.spec.plan.read_only:
            return False
        is_certain = stage.layer is None and stage.basics.is_shared
        return is_certain or await stage.engine.layer_size(stage.container.id) > 0

    def _telling(self, found: tuple[str, ...]) -> tuple[str, ...]:
        """Without folders that are made only for what is no matter."""
        return tuple(path for path in found if not any(_is_above(path, each) for each in self._harmless))

    async def _image_prints(self) -> Contents:
        return await self.stage.pristine.prints(self.stage.image.id, self._is_system)

    async def _prints(self, top: str) -> dict[str, str]:
        stage = self.stage
        return await take_prints(stage.engine.archive(stage.container.id, top), top, self._is_system)

    async def _volume_prints(self) -> dict[str, str]:
        found = dict[str, str]()
        for volume in self._volumes:
            found |= await self._prints(volume)
        return found

    def _is_system(self, path: str) -> bool:
        return not any(path == place or path.startswith(f"{place}/") for place in self._harmless)

    @property
    def _harmless(self) -> tuple[str, ...]:
        return (*SCRATCH, *self._working)

    @property
    def _working(self) -> tuple[str, ...]:
        """Where changes are meant to be made. Where only a flag follows, also what is collected."""
        demands = self.stage.spec.demands
        collected = () if demands.tells_setup_apart else demands.collect
        return (*self._workplaces, *collected)

    @property
    def _workplaces(self) -> tuple[str, ...]:
        """Where work is meant to be done."""
        spec = self.stage.spec
        mounted = () if spec.agent_also_at is None else (spec.agent_also_at,)  # the engine makes its point
        return (self.stage.basics.workdir, *spec.plan.tmpfs, *mounted)

    @property
    def _volumes(self) -> tuple[str, ...]:
        """Volumes of the image in which no work is meant to be done."""
        return tuple(path for path in self.stage.image.volumes if self._is_system(path))

    @property
    def _goes_by_content(self) -> bool:
        """Whether changes are refused, and can't be seen in the container's layer."""
        stage = self.stage
        is_refused = stage.spec.demands.refuses_changes and not stage.spec.plan.read_only
        return is_refused and (stage.layer is None or not can_look_into(stage.layer))


def _is_above(path: str, place: str) -> bool:
    return path == "/" or place.startswith(f"{path}/")
