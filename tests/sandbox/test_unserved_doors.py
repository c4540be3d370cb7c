"""Whether doors could stand in a container's network, tried without anybody who serves them."""

import os

import pytest

from labrunner.errors import SandboxFailed
from labrunner.sandbox.docker.probing.probe import UnservedDoors
from labrunner.sandbox.door import Reach


async def test_a_network_that_may_be_joined_is_well() -> None:
    await UnservedDoors(Reach(way="planted")).open(os.getpid())


async def test_one_that_is_not_there_is_told_with_what_to_do() -> None:
    with pytest.raises(
        SandboxFailed, match=r"into a container's network \(.+\): run lab as root, or use bubb"
    ):
        await UnservedDoors(Reach(way="planted")).open(2**22 + 1)


async def test_an_address_of_this_host_is_well_and_one_of_another_is_told_with_what_to_do() -> None:
    await UnservedDoors(Reach(way="bridge", host="127.0.0.1")).open(None)
    told = r"has 192\.0\.2\.1 for its host, where lab can't listen \(.+\): run lab where the engine runs"
    with pytest.raises(SandboxFailed, match=told):
        await UnservedDoors(Reach(way="bridge", host="192.0.2.1")).open(None)
