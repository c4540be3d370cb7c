"""An attempt's containers are released, at a server of our own that can't remove some of them yet."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from aiohttp import web

from labrunner.sandbox.docker.attempt.disposal import Removals
from labrunner.sandbox.docker.engine.client import Engine


class Site:
    """Removes what is over only once it has been asked for something else."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.url = ""

    async def answer(self, request: web.Request) -> web.Response:
        if request.path.endswith("/version"):
            return web.json_response({"ApiVersion": "1.47"})
        name = request.path.split("/containers/")[1].split("/")[0]
        self.asked.append(name)
        is_busy = name == "over" and "own" not in self.asked
        return web.json_response({"message": "busy"}, status=500) if is_busy else web.Response(status=204)


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    made, app = Site(), web.Application()
    app.router.add_route("*", "/{path:.*}", made.answer)
    runner = web.AppRunner(app)
    await runner.setup()
    server = web.TCPSite(runner, "127.0.0.1", 0)
    await server.start()
    host, port, *_ = runner.addresses[0]
    made.url = f"tcp://{host}:{port}"
    yield made
    await runner.cleanup()


@pytest.mark.parametrize("keep", [True, False])
async def test_an_attempts_own_containers_do_not_wait_for_those_that_are_over(site: Site, keep: bool) -> None:
    engine = Engine(site.url)
    removals = Removals(engine)
    removals.hold("t" * 16, ["own"], ["over"])
    try:
        async with asyncio.timeout(10):
            await removals.release("t" * 16, keep=keep)
    finally:
        await engine.close()
    assert site.asked == ["own", "over"]
