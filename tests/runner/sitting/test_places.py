"""Places that are an executor's own."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from labrunner.executor.door import HasPlaces, find_places
from labrunner.runner.sitting.course import Tallies
from labrunner.runner.sitting.places import Places
from labrunner.runner.sitting.stopping import StopRequest


@dataclass
class Elsewhere:
    """Somebody with places that come and go."""

    places: int = 0
    trouble: str = "waiting for a node to join"
    end: str = ""
    changed: Callable[[], None] | None = None

    def expect(self, nodes: frozenset[str]) -> None:
        del nodes

    async def open(self, changed: Callable[[], None]) -> None:
        self.changed = changed


async def test_no_more_are_free_than_there_are_now_and_than_is_asked_for() -> None:
    own = Elsewhere()
    assert isinstance(own, HasPlaces)
    places = Places(2, Tallies(planned=9), has_budget=False, own=own)
    await places.open()
    assert (places.has_free, places.trouble) == (False, "waiting for a node to join")
    own.places, own.trouble = 1, ""
    assert own.changed is not None
    own.changed()
    assert places.changed.is_set()
    assert (places.has_free, places.trouble) == (True, "")


async def test_what_is_under_way_or_collected_is_not_waited_for_once_places_are_gone_for_good() -> None:
    own = Elsewhere(places=2)
    places = Places(2, Tallies(planned=9), has_budget=False, own=own)

    async def carry_out(token: str) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            places.leave(token)

    tasks = {token: asyncio.ensure_future(carry_out(token)) for token in ("runs", "comes home")}
    for token, task in tasks.items():
        places.take(token, task)
    places.free("comes home")
    emptying = asyncio.ensure_future(places.empty(StopRequest(), grace_s=3600))
    await asyncio.sleep(0)
    assert not any(task.done() for task in tasks.values())
    own.end = "all nodes are gone"
    places.changed.set()
    async with asyncio.timeout(5):
        await emptying
        await asyncio.wait(tasks.values())
    assert all(task.cancelled() for task in tasks.values())


async def test_whoever_stands_in_front_hides_no_places() -> None:
    @dataclass
    class Front:
        inner: object

    own = Elsewhere(places=3)
    assert find_places(Front(Front(own))) is own  # type: ignore[arg-type] # only what stands behind is looked at
    assert find_places(Front(object())) is None  # type: ignore[arg-type] # the same
