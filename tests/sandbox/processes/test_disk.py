import asyncio
from pathlib import Path

from labrunner.sandbox.processes import disk
from labrunner.sandbox.processes.disk import DiskGuard
from labrunner.sandbox.processes.enforcement import Share

MIB = 1 << 20


def share(size: int, files: int = 1000) -> Share:
    return Share(bytes=size, files=files)


def fill(path: Path, size: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"x" * size)


async def test_the_guard_speaks_once_when_there_is_too_much(tmp_path: Path) -> None:
    heard = asyncio.Event()
    times: list[int] = []

    def on_over() -> None:
        times.append(1)
        heard.set()

    guard = DiskGuard(folders=(tmp_path,), share=share(MIB), on_over=on_over)
    guard.start()
    fill(tmp_path / "big", 2 * MIB)
    async with asyncio.timeout(20):
        await heard.wait()
    guard.stop()
    assert (guard.over, times) == (True, [1])


async def test_growth_after_the_first_walk_is_seen(tmp_path: Path) -> None:
    heard = asyncio.Event()
    guard = DiskGuard(folders=(tmp_path,), share=share(20 * MIB), on_over=heard.set)
    guard.start()
    await asyncio.sleep(2 * disk.TICK_S)  # the first walk finds nothing
    fill(tmp_path / "big", 30 * MIB)
    async with asyncio.timeout(20):
        await heard.wait()
    guard.stop()


async def test_a_guard_for_what_comes_on_top_forgives_what_is_there(tmp_path: Path) -> None:
    fill(tmp_path / "left", 3 * MIB)
    heard = asyncio.Event()
    guard = DiskGuard(folders=(tmp_path,), share=share(MIB), beyond_first_walk=True, on_over=heard.set)
    guard.start()
    await asyncio.sleep(2 * disk.TICK_S)
    assert not heard.is_set()
    fill(tmp_path / "more", 2 * MIB)
    async with asyncio.timeout(20):
        await heard.wait()
    guard.stop()


async def test_the_last_look_does_not_depend_on_ticks(tmp_path: Path) -> None:
    guard = DiskGuard(folders=(tmp_path,), share=share(MIB), on_over=lambda: None)
    guard.start()
    guard.stop()
    assert not await guard.check(None)
    fill(tmp_path / "big", 2 * MIB)
    assert await guard.check(None)


async def test_the_last_look_can_be_a_keepers(tmp_path: Path) -> None:
    guard = DiskGuard(folders=(tmp_path,), share=share(MIB), on_over=lambda: None)
    guard.start()
    guard.stop()
    assert not await guard.check((MIB, 1))
    assert await guard.check((MIB + 1, 1))


async def test_files_without_content_count_by_their_number(tmp_path: Path) -> None:
    heard = asyncio.Event()
    guard = DiskGuard(folders=(tmp_path,), share=share(100 * MIB, files=50), on_over=heard.set)
    guard.start()
    for number in range(60):
        (tmp_path / str(number)).touch()
    async with asyncio.timeout(20):
        await heard.wait()
    guard.stop()
    assert guard.over
    assert await guard.check((0, 51))


async def test_names_of_one_file_count_once(tmp_path: Path) -> None:
    guard = DiskGuard(folders=(tmp_path,), share=share(100 * MIB, files=50), on_over=lambda: None)
    guard.start()
    guard.stop()
    (tmp_path / "first").touch()
    for number in range(60):
        (tmp_path / str(number)).hardlink_to(tmp_path / "first")
    assert not await guard.check(None)
