"""Making an attempt's files ours again when its wrapper could not hand them back.

As root we do it ourselves, without following links; else a short container of the same image does.
"""

import itertools
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from labrunner.sandbox.docker.engine import Engine
from labrunner.sandbox.docker.text import GUARDED, WRITABLE


def find_foreign(folders: tuple[Path, ...]) -> Iterator[tuple[int, str]]:
    """Find what is not ours below these folders: an open folder, and a name in it. Links are not followed."""
    ours = os.geteuid()
    walks = (os.fwalk(top, follow_symlinks=False) for top in folders)
    for _, inner, files, fd in itertools.chain.from_iterable(walks):
        for name in (".", *inner, *files):
            if os.stat(name, dir_fd=fd, follow_symlinks=False).st_uid != ours:
                yield fd, name


def take(folders: tuple[Path, ...]) -> None:
    """Make everything below these folders ours; only root can."""
    for fd, name in find_foreign(folders):
        os.chown(name, os.geteuid(), os.getegid(), dir_fd=fd, follow_symlinks=False)


async def reclaim(engine: Engine, image: str, mounts: list[dict[str, Any]], owner: str) -> None:
    """Let a container of the same image hand the files back. What it can't, stays as it is."""
    places = " ".join((*WRITABLE, *GUARDED))
    config = {
        "Image": image,
        "User": "0:0",
        "Entrypoint": ["/bin/sh", "-c", f"chown -hR {owner} {places}"],
        "Cmd": [],
        "NetworkDisabled": True,
        "HostConfig": {
            "Mounts": mounts,
            "NetworkMode": "none",
            "CapDrop": ["ALL"],
            "CapAdd": ["CHOWN", "DAC_OVERRIDE", "FOWNER"],
            "SecurityOpt": ["no-new-privileges"],
        },
    }
    helper = await engine.create(config, f"lab-helper-{os.urandom(6).hex()}")
    try:
        await engine.start(helper)
        await engine.wait(helper)
    finally:
        await engine.remove(helper)
