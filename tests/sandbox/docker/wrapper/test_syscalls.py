"""What the filter of system calls refuses: the hypervisor, and whatever the engine's own refuses."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from labrunner.sandbox.docker.engine.client import Engine
from labrunner.sandbox.docker.engine.replies import EngineFacts
from labrunner.sandbox.docker.wrapper.configuration import CAPABILITIES
from labrunner.sandbox.docker.wrapper.syscalls import check_filter, choose_filter, read_filter
from tests.kit.docker.site import Site
from tests.kit.sandbox.place import phase, sh

SCRIPT = Path(__file__).parents[3] / "kit/docker/syscalls.py"
EPERM, ENOSYS = 1, 38
IO_URING = {"425", "426", "427"}
needs_x86 = pytest.mark.skipif(os.uname().machine != "x86_64", reason="numbers of calls are those of x86_64")


def facts(version: str, **info: Any) -> EngineFacts:
    return EngineFacts.of({"ServerVersion": version, **info})


async def try_all(engine: Engine, image: str, *options: str) -> dict[str, int]:
    """What came of every call in a container with these options."""
    config = {
        "Image": image,
        "Cmd": ["python3", "-I", "-c", SCRIPT.read_text()],
        "HostConfig": {
            "NetworkMode": "none",
            "CapDrop": ["ALL"],
            "CapAdd": list(CAPABILITIES),
            "SecurityOpt": ["no-new-privileges", *options],
        },
    }
    container = await engine.create(config, f"lab-test-syscalls-{os.urandom(4).hex()}")
    try:
        await engine.start(container)
        await engine.wait(container)
        answer: dict[str, int] = json.loads(await engine.said(container))
        return answer
    finally:
        await engine.remove(container)


@needs_x86
async def test_our_filter_allows_nothing_that_the_engines_own_refuses(site: Site) -> None:
    engine = site.maker.engine
    if choose_filter(await engine.facts()) is None:
        pytest.skip("this engine has a filter of its own that closes AF_VSOCK")
    own = await try_all(engine, site.image)
    ours = await try_all(engine, site.image, f"seccomp={read_filter()}")
    differing = {name for name in own if own[name] != ours[name]}
    assert differing <= {"AF_VSOCK", *IO_URING}, {name: (own[name], ours[name]) for name in differing}
    assert ours["AF_VSOCK"] == EPERM
    assert {ours[number] for number in IO_URING} == {ENOSYS}


async def test_an_agent_without_a_network_can_not_reach_the_hypervisor(site: Site) -> None:
    reach = "import socket; socket.socket(socket.AF_VSOCK, socket.SOCK_STREAM)"
    async with site.maker.open(site.spec()) as sandbox:
        run = await sandbox.run_agent(None, phase("python3", "-I", "-c", reach))
        said = (site.run_dir / "trials" / "t" / "1" / "logs" / "agent.stderr").read_text()
        await sandbox.run_grader(sh("true", name="grader"))
    assert run.agent is not None
    assert run.agent.exit_status == 1
    assert "Operation not permitted" in said


@pytest.mark.parametrize(
    ("version", "profile", "is_ours", "is_warned"),
    [
        ("20.10.24+dfsg1", "default", True, False),
        ("24.0.7", "builtin", True, False),
        ("25.0.0", "builtin", False, False),
        ("28.2.2-rc.1", "builtin", False, False),
        ("19.03.15", "default", False, True),
        ("28.2.2", "/etc/docker/own.json", False, True),
        ("28.2.2", None, False, True),
    ],
)
def test_which_engines_get_our_filter_and_which_are_warned_of(
    version: str, profile: str | None, is_ours: bool, is_warned: bool
) -> None:
    options = ["name=apparmor"] + ([f"name=seccomp,profile={profile}"] if profile else [])
    engine = facts(version, SecurityOptions=options)
    assert (choose_filter(engine) is not None) == is_ours
    assert bool(list(check_filter(engine))) == is_warned
