"""Disks that can be copied as they are at one moment: what a power cut would leave of them."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

SIZE_MB = 96


def skip_without_disks() -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can mount a disk image")
    for tool in ("mkfs.ext4", "losetup", "mount"):
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is not installed")


def make_image(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(SIZE_MB * 2**20)
    # A journal that is written only when somebody syncs: nothing becomes durable by the way.
    subprocess.run(["mkfs.ext4", "-q", "-F", "-m", "0", path], check=True)


def copy_image(image: Path, copy: Path) -> None:
    """What is on the disk at this moment, without what only the file system's own memory holds."""
    subprocess.run(["cp", "--sparse=always", image, copy], check=True)


@contextmanager
def mounted(image: Path, place: Path) -> Iterator[Path]:
    """The image as a file system; a copy of a mounted one first replays its journal, as after a power cut."""
    place.mkdir(exist_ok=True)
    subprocess.run(["mount", "-o", "loop,commit=600", image, place], check=True)
    try:
        yield place
    finally:
        # Lazily: should a test fail, its processes may still be there.
        subprocess.run(["umount", "--lazy", place], check=True)
