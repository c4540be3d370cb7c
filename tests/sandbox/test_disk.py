import asyncio
import os
from pathlib import Path

import pytest

from labrunner.sandbox import disk
from labrunner.sandbox.disk import DiskGuard, TooMany, measure

MIB = 1 << 20


def fill(path: Path, size: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"x" * size)


def test_counts_what_files_take_on_disk(tmp_path: Path) -> None:
    fill(tmp_path / "a", MIB)
    fill(tmp_path / "d" / "e" / "b", MIB)
    with (tmp_path / "sparse").open("wb") as file:
        file.truncate(1 << 40)
    assert 2 * MIB <= measure([tmp_path]) < 3 * MIB


def test_a_hard_link_counts_once(tmp_path: Path) -> None:
    fill(tmp_path / "a" / "x", MIB)
    (tmp_path / "b").mkdir()
    os.link(tmp_path / "a" / "x", tmp_path / "b" / "x")
    assert measure([tmp_path / "a", tmp_path / "b"]) < 2 * MIB


def test_links_are_never_followed(tmp_path: Path) -> None:
    fill(tmp_path / "outside" / "big", 4 * MIB)
    inside = tmp_path / "inside"
    inside.mkdir()
    (inside / "link").symlink_to(tmp_path / "outside")
    (inside / "file").symlink_to(tmp_path / "outside" / "big")
    assert measure([inside]) < MIB
    (tmp_path / "top").symlink_to(tmp_path / "outside")
    assert measure([tmp_path / "top"]) == 0


def test_what_is_not_there_counts_nothing(tmp_path: Path) -> None:
    assert measure([tmp_path / "nowhere"]) == 0


def test_a_tree_without_end_counts_as_over(tmp_path: Path) -> None:
    start = os.open(tmp_path, os.O_RDONLY)
    fd = start
    for _ in range(disk.MAX_DEPTH + 5):
        os.mkdir("d", dir_fd=fd)
        deeper = os.open("d", os.O_RDONLY, dir_fd=fd)
        if fd != start:
            os.close(fd)
        fd = deeper
    os.close(fd)
    os.close(start)
    assert measure([tmp_path]) >= disk.TOO_DEEP


def test_a_walk_can_be_told_to_give_up(tmp_path: Path) -> None:
    for number in range(20):
        (tmp_path / str(number)).touch()
    assert measure([tmp_path], 20) >= 0
    with pytest.raises(TooMany):
        measure([tmp_path], 19)


async def test_the_guard_speaks_once_when_there_is_too_much(tmp_path: Path) -> None:
    heard = asyncio.Event()
    times: list[int] = []

    def on_over() -> None:
        times.append(1)
        heard.set()

    guard = DiskGuard(folders=(tmp_path,), limit=MIB, on_over=on_over)
    guard.start()
    fill(tmp_path / "big", 2 * MIB)
    async with asyncio.timeout(20):
        await heard.wait()
    guard.stop()
    assert (guard.over, times) == (True, [1])


async def test_growth_after_the_first_walk_is_seen(tmp_path: Path) -> None:
    heard = asyncio.Event()
    guard = DiskGuard(folders=(tmp_path,), limit=20 * MIB, on_over=heard.set)
    guard.start()
    await asyncio.sleep(2 * disk.TICK_S)  # the first walk finds nothing
    fill(tmp_path / "big", 30 * MIB)
    async with asyncio.timeout(20):
        await heard.wait()
    guard.stop()


async def test_a_guard_for_what_comes_on_top_forgives_what_is_there(tmp_path: Path) -> None:
    fill(tmp_path / "left", 3 * MIB)
    heard = asyncio.Event()
    guard = DiskGuard(folders=(tmp_path,), limit=MIB, beyond_first_walk=True, on_over=heard.set)
    guard.start()
    await asyncio.sleep(2 * disk.TICK_S)
    assert not heard.is_set()
    fill(tmp_path / "more", 2 * MIB)
    async with asyncio.timeout(20):
        await heard.wait()
    guard.stop()


async def test_the_last_look_does_not_depend_on_ticks(tmp_path: Path) -> None:
    guard = DiskGuard(folders=(tmp_path,), limit=MIB, on_over=lambda: None)
    guard.start()
    guard.stop()
    assert not await guard.check()
    for number in range(disk.FEW_ENTRIES + 1):
        fill(tmp_path / f"f{number}", 8192)
    assert await guard.check()
