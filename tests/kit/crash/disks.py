"""Disks that can be copied as they are at one moment: what a power cut would leave of them."""

import os
import shutil
import subprocess
import time
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
    path.unlink(missing_ok=True)  # never into a file that an earlier mount may still write to
    with path.open("wb") as file:
        file.truncate(SIZE_MB * 2**20)
    # A journal that is written only when somebody syncs: nothing becomes durable by the way.
    subprocess.run(["mkfs.ext4", "-q", "-F", "-m", "0", path], check=True)


def copy_image(image: Path, copy: Path) -> None:
    """What is on the disk at one moment, without what only the file system's own memory holds.

    The kernel writes journalled blocks to their places when it likes. A copy that was read while it did so
    may hold the old block and the journal's new tail, which no power cut leaves: then it is read again.
    """
    while True:
        subprocess.run(["cp", "--sparse=always", image, copy], check=True)
        if subprocess.run(["cmp", "--silent", image, copy], check=False).returncode == 0:
            return


@contextmanager
def mounted(image: Path, place: Path) -> Iterator[Path]:
    """The image as a file system; a copy of a mounted one first replays its journal, as after a power cut."""
    place.mkdir(exist_ok=True)
    subprocess.run(["mount", "-o", "loop,commit=600", image, place], check=True)
    try:
        yield place
    finally:
        _unmount(place)


def _unmount(place: Path) -> None:
    """Unmount once the keepers of a killed run have gone; lazily should they stay, as after a failed test."""
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        if subprocess.run(["umount", "--quiet", place], check=False, capture_output=True).returncode == 0:
            return
        time.sleep(0.02)
    subprocess.run(["umount", "--lazy", place], check=True)
