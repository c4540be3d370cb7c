"""Pulling and pruning, against an engine that is a list of answers: no registry is asked for anything."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import pytest

from labrunner.errors import SandboxFailed
from labrunner.sandbox.docker.engine.client import Engine
from labrunner.sandbox.docker.engine.engine_errors import EngineRefused
from labrunner.sandbox.docker.engine.images import Images
from labrunner.sandbox.docker.engine.replies import ImageFacts, PullNews
from tests.kit.builders import make_sandbox
from tests.kit.waiting import Pauses


@dataclass
class Shelf(Engine):
    """An engine with a registry behind it that answers as it is told."""

    refusals: list[EngineRefused] = field(default_factory=list)
    here: set[str] = field(default_factory=set)
    digests: dict[str, str] = field(default_factory=dict)
    """What names mean at the moment; those that are not in it have no digest."""
    failures: list[EngineRefused] = field(default_factory=list)
    """Of looks that come after a pull."""
    pulling: int = 0
    most: int = 0
    pulls: list[str] = field(default_factory=list)

    async def image(self, name: str) -> ImageFacts:
        if name not in self.here:
            raise EngineRefused(404, "looking", "no such image")
        if self.pulls and self.failures:
            raise self.failures.pop(0)
        digest = name if "@" in name else self.digests.get(name)
        return ImageFacts(id=f"sha256:{digest or name}", repo_digest=digest, user="", env={})

    async def pull(self, name: str) -> AsyncIterator[PullNews]:
        self.pulls.append(name)
        if self.refusals:
            raise self.refusals.pop(0)
        self.pulling += 1
        self.most = max(self.most, self.pulling)
        yield PullNews(status="Pulling from somewhere", layer="1", current=0, total=0)
        await asyncio.sleep(0.01)
        self.pulling -= 1
        self.here.add(name)

    async def remove_image(self, name: str) -> None:
        self.here.discard(name)


def busy() -> EngineRefused:
    return EngineRefused(500, "pulling", "toomanyrequests: slow down")


async def test_at_most_three_are_pulled_at_once() -> None:
    shelf = Shelf()
    images = Images(shelf)
    async with asyncio.TaskGroup() as group:
        for number in range(9):
            group.create_task(images.resolve(make_sandbox(image=f"i{number}")))
    assert shelf.most == 3
    assert len(shelf.here) == 9


async def test_one_image_is_pulled_once_however_many_ask_for_it() -> None:
    shelf = Shelf()
    images = Images(shelf)
    async with asyncio.TaskGroup() as group:
        for _ in range(5):
            group.create_task(images.resolve(make_sandbox(image="same")))
    assert shelf.pulls == ["same"]


@pytest.mark.parametrize("refusal", [busy(), EngineRefused(429, "pulling", "later")], ids=["code", "status"])
async def test_a_registry_that_asks_for_patience_gets_it(refusal: EngineRefused) -> None:
    shelf, pauses = Shelf(refusals=[refusal, busy()]), Pauses()
    await Images(shelf, pauses).resolve(make_sandbox(image="wanted"))
    assert pauses.taken == [4.0, 8.0]


async def test_patience_ends() -> None:
    shelf, pauses = Shelf(refusals=[busy() for _ in range(20)]), Pauses()
    with pytest.raises(SandboxFailed, match="toomanyrequests"):
        await Images(shelf, pauses).resolve(make_sandbox(image="wanted"))
    assert len(shelf.pulls) == 6
    assert pauses.taken == [4.0, 8.0, 16.0, 32.0, 64.0]


async def test_another_refusal_is_final() -> None:
    shelf, pauses = Shelf(refusals=[EngineRefused(404, "pulling", "no such repository")]), Pauses()
    with pytest.raises(SandboxFailed, match="by hand"):
        await Images(shelf, pauses).resolve(make_sandbox(image="wanted"))
    assert pauses.taken == []


async def test_what_a_name_means_is_decided_once() -> None:
    shelf = Shelf(here={"x"})
    images = Images(shelf)
    first = await images.resolve(make_sandbox(image="x"))
    shelf.here.clear()
    assert await images.resolve(make_sandbox(image="x")) == first


async def test_only_what_was_pulled_here_is_pruned_and_only_when_asked() -> None:
    shelf = Shelf(here={"mine"})
    images = Images(shelf)
    plans = [
        make_sandbox(image=name, prune_images=prune)
        for name, prune in (("mine", True), ("kept", False), ("gone", True))
    ]
    for plan in plans:
        await images.take(plan)
    await images.prune()
    assert shelf.here == {"mine", "kept"}


async def test_preflight_alone_prunes_nothing() -> None:
    shelf = Shelf()
    images = Images(shelf)
    await images.resolve(make_sandbox(image="x", prune_images=True))
    await images.prune()
    assert shelf.here == {"x"}


async def test_a_lazy_image_goes_with_its_last_container() -> None:
    shelf = Shelf()
    images = Images(shelf)
    plan = make_sandbox(image="x", pull="lazy", prune_images=True)
    await images.take(plan)
    await images.take(plan)
    await images.give_back(plan)
    assert shelf.here == {"x"}
    await images.give_back(plan)
    assert shelf.here == set()
    await images.take(plan)
    assert shelf.pulls == ["x", "x"]


async def test_a_name_that_means_another_image_by_now_is_pulled_again_by_what_it_meant() -> None:
    shelf = Shelf(digests={"x": "x@sha256:1"})
    images = Images(shelf)
    plan = make_sandbox(image="x", pull="lazy", prune_images=True)
    first = await images.take(plan)
    await images.give_back(plan)
    shelf.here, shelf.digests = {"x"}, {"x": "x@sha256:2"}  # pulled by somebody else meanwhile
    assert await images.is_deferred(plan)
    assert await images.take(plan) == first
    assert shelf.pulls == ["x", "x@sha256:1"]


async def test_an_image_that_was_pulled_and_then_not_found_is_still_pruned() -> None:
    shelf = Shelf(failures=[EngineRefused(500, "looking", "busy")])
    images = Images(shelf)
    with pytest.raises(EngineRefused, match="busy"):
        await images.take(make_sandbox(image="x", prune_images=True))
    await images.prune()
    assert shelf.here == set()
