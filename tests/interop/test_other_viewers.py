"""What people see of exported logs in the other package's own viewer."""

import asyncio
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp

from labrunner.interop.registry import export
from tests.kit.browser import page_of
from tests.kit.interop.exported import TASKS, make_picture


async def test_the_other_packages_viewer_shows_logs_samples_scores_and_errors(tmp_path: Path) -> None:
    logs = export(make_picture(tmp_path / "runs"), "inspect", tmp_path / "logs")
    async with asyncio.timeout(110), viewer(tmp_path / "logs") as address, page_of(tmp_path) as page:
        await page.open(address)
        await page.wait_for("document.body.innerText.includes('openai/big')")
        listed = await page.run("document.body.innerText")
        (new,) = [path for path in logs if path.name.endswith("_new.eval")]
        await page.open("about:blank")
        await page.open(f"{address}#/logs/{new.name}")
        await page.wait_for("document.body.innerText.includes('6 x 7')")
        shown = await page.run("document.body.innerText")
        await page.open("about:blank")
        await page.open(f"{address}#/logs/{new.name}/samples/sample/{TASKS[0]}/1/messages")
        await page.wait_for("document.body.innerText.includes('let me see')")
    assert listed.count("export & <test>") == 2
    assert TASKS[1] in shown


@asynccontextmanager
async def viewer(logs: Path) -> AsyncIterator[str]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "inspect_ai", "view", "start",
        *("--log-dir", str(logs), "--host", "127.0.0.1", "--port", str(port)),
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )  # fmt: skip
    try:
        address = f"http://127.0.0.1:{port}/"
        async with aiohttp.ClientSession() as session:
            while not await answers(session, address):
                await asyncio.sleep(0.1)
        yield address
    finally:
        process.kill()
        await process.wait()


async def answers(session: aiohttp.ClientSession, address: str) -> bool:
    try:
        async with session.get(address) as answer:
            return answer.status == 200
    except aiohttp.ClientConnectionError:
        return False
