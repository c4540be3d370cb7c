"""Throwing away what a policy does not keep of an attempt, once its end is durable; one way for all."""

import asyncio

from labrunner.executor.door import Discard
from labrunner.files.layering.layernote import LAYER
from labrunner.files.strangers.removal import remove_if_possible, throw_away_if_possible
from labrunner.sandbox.door import SandboxMaker
from labrunner.trial.assignment import AttemptScene


async def release_attempt(maker: SandboxMaker, scene: AttemptScene, drop: Discard) -> None:
    """Remove an attempt's sandbox and folders as `drop` says."""
    await maker.release(scene.assignment.token, keep=not drop.sandbox)
    folders = scene.folders
    if drop.workspace:
        await asyncio.to_thread(throw_away_if_possible, folders.workspace)
        await asyncio.to_thread(remove_if_possible, folders.root / LAYER)
    gone = [folders.logs] if drop.logs else []
    gone += [folders.ctl, folders.agent_mount] if maker.outlives_runner and drop.sandbox else []
    for folder in gone:
        await asyncio.to_thread(remove_if_possible, folder)
