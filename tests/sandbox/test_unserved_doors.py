"""Whether doors could stand in a container's network, tried without anybody who serves them."""

import os

import pytest

from labrunner.errors import SandboxFailed
from labrunner.sandbox.docker.probing.probe import UnservedDoors


async def test_a_network_that_may_be_joined_is_well() -> None:
    await UnservedDoors().open(os.getpid())


async def test_one_that_is_not_there_is_told_with_what_to_do() -> None:
    with pytest.raises(
        SandboxFailed, match=r"into a container's network \(.+\): run lab as root, or use bubb"
    ):
        await UnservedDoors().open(2**22 + 1)
