"""A real browser, driven through its own debugging protocol: what a page does, says and fetches.

Debian's chromium, headless. `scripts/with-browser` installs it; `page_of` skips where there is none, unless
that was promised with LAB_BROWSER=1.
"""

import asyncio
import base64
import json
import os
import re
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Self

import aiohttp
import pytest

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
Plain = dict[str, Any]  # JSON, as the protocol has it
_FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--no-first-run",
    "--remote-debugging-port=0",
    "--window-size=1280,1000",
)


class Page:
    """One page, and everything that happened on it since it was opened."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self.troubles: list[str] = []
        """Errors of scripts, and what the browser refused."""
        self.requests: list[str] = []
        self._socket = socket
        self._number = 0
        self._loaded = False
        self._is_cut = False
        """Whether the browser dropped what was on its way, because networks of this machine came or went."""

    async def open(self, url: str) -> Self:
        """Open an address, and wait until it is loaded."""
        self._is_cut = True
        while self._is_cut:
            self._loaded = self._is_cut = False
            await self._call("Page.navigate", url=url)
            while not self._loaded:
                self._note(await self._receive())
        return self

    async def resize(self, width: int, height: int) -> None:
        """Make the window another size."""
        await self._call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 600,
        )

    async def prefer(self, scheme: str) -> None:
        """Let the reader prefer light, or dark."""
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        await self._call("Emulation.setEmulatedMedia", features=features)

    async def run(self, script: str) -> Any:
        """Carry out a script as if the page's reader had typed it; its value."""
        told = await self._call(
            "Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True, userGesture=True
        )
        if "exceptionDetails" in told:
            raise AssertionError(json.dumps(told["exceptionDetails"]))
        return told["result"].get("value")

    async def wait_for(self, script: str) -> Any:
        """Carry out a script again and again until it gives something true."""
        while not (found := await self.run(script)):
            await asyncio.sleep(0.05)
        return found

    async def picture(self, target: Path, quality: int | None = None) -> None:
        """Keep what is seen, as PNG, or small as WebP of this quality."""
        how = {} if quality is None else {"format": "webp", "quality": quality}
        told = await self._call("Page.captureScreenshot", captureBeyondViewport=False, **how)
        target.write_bytes(base64.b64decode(told["data"]))

    async def prepare(self) -> None:
        """Ask to be told what happens."""
        for domain in ("Page", "Runtime", "Network", "Log"):
            await self._call(f"{domain}.enable")

    async def _call(self, method: str, **params: object) -> Plain:
        self._number += 1
        await self._socket.send_json({"id": self._number, "method": method, "params": params})
        while (told := await self._receive()).get("id") != self._number:
            self._note(told)
        if "error" in told:
            raise AssertionError(f"{method}: {told['error']}")
        result: Plain = told["result"]
        return result

    async def _receive(self) -> Plain:
        told: Plain = await self._socket.receive_json()
        return told

    def _note(self, told: Plain) -> None:
        params = told.get("params", {})
        match told.get("method"):
            case "Page.loadEventFired":
                self._loaded = True
            case "Network.requestWillBeSent":
                self.requests.append(params["request"]["url"])
            case "Runtime.exceptionThrown":
                self.troubles.append(json.dumps(params["exceptionDetails"]))
            case "Log.entryAdded" if "net::ERR_NETWORK_CHANGED" in params["entry"]["text"]:
                self._is_cut = True
            case "Log.entryAdded" if params["entry"]["level"] == "error":
                self.troubles.append(params["entry"]["text"])
            case "Page.javascriptDialogOpening":
                self.troubles.append(f"a dialog: {params['message']}")
            case _:
                pass


@asynccontextmanager
async def page_of(folder: Path) -> AsyncIterator[Page]:
    """A browser's only page; the browser's own files go into `folder`."""
    if BROWSER is None:
        if os.environ.get("LAB_BROWSER"):
            pytest.fail("LAB_BROWSER is set, but there is no chromium")
        pytest.skip("no chromium here; scripts/with-browser installs it")
    process = await asyncio.create_subprocess_exec(
        BROWSER,
        *_FLAGS,
        f"--user-data-dir={folder / 'profile'}",
        "about:blank",
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, "HOME": str(folder)},
    )
    try:
        address = await _find_address(process)
        async with aiohttp.ClientSession() as session:
            async with session.get(f"http://{address}/json/list") as answer:
                (target,) = [each for each in await answer.json() if each["type"] == "page"]
            async with session.ws_connect(target["webSocketDebuggerUrl"], max_msg_size=0) as socket:
                page = Page(socket)
                await page.prepare()
                yield page
    finally:
        process.kill()
        await process.wait()


async def _find_address(process: asyncio.subprocess.Process) -> str:
    assert process.stderr is not None
    said = []
    async for line in process.stderr:
        found = re.search(rb"DevTools listening on ws://([^/]+)/", line)
        if found is not None:
            return found[1].decode()
        said.append(line.decode(errors="replace"))
    raise AssertionError(f"the browser ended: {''.join(said)}")
