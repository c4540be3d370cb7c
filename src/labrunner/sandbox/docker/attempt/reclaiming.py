"""Making an attempt's files ours again when its wrapper could not hand them back.

As root we do it ourselves, without following links; else a short container of the same image does.
"""

import itertools
import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from labrunner.files.descriptors import FOLDER
from labrunner.sandbox.docker.engine.client import Engine
from labrunner.sandbox.docker.wrapper.script import GUARDED, WRITABLE

OWNERS: Final = stat.S_IRWXU


def find_foreign(folders: tuple[Path, ...]) -> Iterator[tuple[int, str]]:
    """Find what is not ours below these folders: an open folder, and a name in it. Links are not followed."""
    ours = os.geteuid()
    for folder, entries in itertools.chain.from_iterable(map(_walk, folders)):
        for name in (".", *(entry.name for entry in entries)):
            if os.stat(name, dir_fd=folder, follow_symlinks=False).st_uid != ours:
                yield folder, name


def _walk(top: Path) -> Iterator[tuple[int, "list[os.DirEntry[str]]"]]:
    """Every folder from this one down, one open at a time: a guest may build deeper than calls can go."""
    folder, steps = os.open(top, FOLDER), ["."]
    try:
        while steps:
            step = steps.pop()
            folder = _step(folder, step)
            if step == "..":
                continue
            with os.scandir(folder) as found:
                entries = list(found)
            yield folder, entries
            inner = [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
            steps += [step for name in inner for step in ("..", name)]
    finally:
        os.close(folder)


def _step(folder: int, name: str) -> int:
    """Go from an open folder to another."""
    there = os.open(name, FOLDER, dir_fd=folder)
    os.close(folder)
    return there


def take(folders: tuple[Path, ...]) -> None:
    """Make everything below these folders ours; only root can."""
    for fd, name in find_foreign(folders):
        os.chown(name, os.geteuid(), os.getegid(), dir_fd=fd, follow_symlinks=False)


def reopen(folders: tuple[Path, ...]) -> None:
    """Give us back the rights to our folders that somebody took away. What is not ours stays as it is."""
    for folder in folders:
        mode = os.lstat(folder).st_mode
        if mode & OWNERS != OWNERS:
            with suppress(PermissionError):
                folder.chmod(stat.S_IMODE(mode) | OWNERS)


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
