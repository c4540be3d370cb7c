"""A container moves from network to network with its phases."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest_asyncio

from labrunner.experiment.resolved import Network
from labrunner.sandbox.docker.engine.client import Engine
from labrunner.sandbox.docker.networking.membership import BRIDGE, Membership
from labrunner.sandbox.door import Phase
from tests.kit.sandbox.place import sh

OWN = "lab-test-membership"


class ClosedDoors:
    """Doors that nobody opens."""

    async def open(self, pid: int | None) -> None:
        raise AssertionError(pid)


@pytest_asyncio.fixture
async def engine() -> AsyncIterator[Engine]:
    engine = Engine()
    made = await engine.make_network({"Name": OWN, "Internal": True, "CheckDuplicate": True})
    yield engine
    await engine.remove_network(made.id)
    await engine.close()


def make_phase(mode: str, *, has_doors: bool) -> Phase:
    network = Network(mode="full" if mode == "full" else "none", models=("m",) if has_doors else ())
    return sh("true", network=network, doors=ClosedDoors() if has_doors else None)


async def test_a_container_is_on_the_networks_of_its_phase_and_on_no_other(
    engine: Engine, ash: str, tmp_path: Path
) -> None:
    membership = Membership(engine=engine, has_full=True, own=OWN)
    assert membership.first == BRIDGE
    config = {"Image": ash, "Entrypoint": ["sleep", "60"], "HostConfig": {"NetworkMode": membership.first}}
    container = await engine.create(config, f"lab-test-{tmp_path.name[:40]}")
    try:
        await engine.start(container)
        membership.note(await engine.look(container))
        assert membership.joined == {BRIDGE}
        for mode, has_doors, wanted in (
            ("none", False, set()),
            ("none", True, {OWN}),
            ("full", True, {BRIDGE, OWN}),
            ("full", False, {BRIDGE}),
            ("none", True, {OWN}),
            ("none", False, set()),
        ):
            await membership.move(container, make_phase(mode, has_doors=has_doors))
            assert (await engine.look(container)).networks == membership.joined == wanted
    finally:
        await engine.remove(container)


def test_a_container_is_made_on_none_only_where_no_phase_needs_one() -> None:
    engine = Engine()
    known = [
        Membership(engine=engine, has_full=full, own=own) for full in (False, True) for own in (None, OWN)
    ]
    assert [each.first for each in known] == ["none", OWN, BRIDGE, BRIDGE]
    assert [each.can_change for each in known] == [False, True, True, True]
