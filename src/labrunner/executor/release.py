"""Throwing away what a policy does not keep of an attempt, once its end is durable; one way for all."""

import asyncio

from labrunner.executor.door import Discard
from labrunner.files.layering.layernote import LAYER, LAYER_PART
from labrunner.files.strangers.removal import remove_if_possible, throw_away_if_possible
from labrunner.sandbox.door import AttemptFolders, SandboxMaker
from labrunner.trial.assignment import AttemptScene


async def release_attempt(maker: SandboxMaker, scene: AttemptScene, drop: Discard) -> None:
    """Remove an attempt's sandbox and folders as `drop` says."""
    await maker.release(scene.assignment.token, keep=not drop.sandbox)
    await throw_away(scene.folders, drop)
    if maker.outlives_runner and drop.sandbox:
        for folder in (scene.folders.ctl, scene.folders.agent_mount):
            await asyncio.to_thread(remove_if_possible, folder)


async def throw_away(folders: AttemptFolders, drop: Discard) -> None:
    """Remove what `drop` says of an attempt's folders, but for those that are its sandbox's own."""
    if drop.workspace:
        await asyncio.to_thread(throw_away_if_possible, folders.workspace)
        for name in (LAYER, LAYER_PART):
            await asyncio.to_thread(remove_if_possible, folders.root / name)
    if drop.logs:
        await asyncio.to_thread(remove_if_possible, folders.logs)
