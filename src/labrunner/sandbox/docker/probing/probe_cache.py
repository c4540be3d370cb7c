"""What probes have proven before, kept for a day in the user's cache folder: a run need not prove it again.

A proof is known by everything that it depends on: the image's digest, the engine, our own wrapper, what was
asked for, and the folder. Only what went well is kept. Nobody misses what can't be kept or read.
"""

import hashlib
import os
import time
from contextlib import suppress
from dataclasses import replace
from importlib import metadata, resources
from pathlib import Path
from typing import Final

from labrunner.experiment.resolved import SandboxPlan
from labrunner.files.cache import user_cache
from labrunner.sandbox.docker.engine.replies import EngineFacts, ImageFacts
from labrunner.sandbox.docker.probing.probe import ProbeOutcome, find_place
from labrunner.sandbox.docker.wrapper.syscalls import choose_filter
from labrunner.sandbox.door import Demands, ReachWay

KEPT_S: Final = 24 * 3600.0


def name_proof(
    plan: SandboxPlan, demands: Demands, image: ImageFacts, engine: EngineFacts, way: ReachWay
) -> str:
    """The name of what is to be proven."""
    parts = (
        metadata.version("labrunner"),
        resources.files("labrunner.sandbox.guest").joinpath("wrapper.sh").read_text(encoding="utf-8"),
        choose_filter(engine),
        f"{engine.id} {engine.version} {engine.filter}",
        image.id,
        way,
        plan,
        replace(demands, place=find_place(demands)),
    )
    return hashlib.sha256(repr(parts).encode()).hexdigest()


def find_proof(name: str) -> ProbeOutcome | None:
    """What was proven lately; None when it has to be tried."""
    with suppress(OSError, ValueError, RuntimeError):
        path = _folder() / name
        if 0 <= time.time() - path.stat().st_mtime < KEPT_S:
            return ProbeOutcome(changes_s=float(path.read_text(encoding="ascii")))
    return None


def keep_proof(name: str, outcome: ProbeOutcome) -> None:
    """Keep what was proven, and throw old proofs away."""
    with suppress(OSError, RuntimeError):
        folder = _folder()
        folder.mkdir(parents=True, exist_ok=True)
        for path in folder.iterdir():
            if time.time() - path.stat().st_mtime >= KEPT_S:
                path.unlink(missing_ok=True)
        fresh = folder / f".{name}-{os.getpid()}"
        fresh.write_text(f"{outcome.changes_s:.3f}", encoding="ascii")
        fresh.rename(folder / name)


def _folder() -> Path:
    """Where proofs lie; RuntimeError for a user without a home."""
    return user_cache("proofs")
