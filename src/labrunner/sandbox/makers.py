"""Which maker stands behind the name of a sandbox kind."""

from collections.abc import Callable
from functools import cache
from typing import assert_never

from labrunner.errors import InputError
from labrunner.experiment.model import SandboxKind
from labrunner.sandbox.door import SandboxMaker


def remember() -> Callable[[SandboxKind], SandboxMaker]:
    """Make each kind once: what preflight found out is what the run is then carried out with."""
    return cache(make)


def make(kind: SandboxKind) -> SandboxMaker:
    """Return a maker of that kind; nothing is started or probed by this."""
    match kind:
        case "bubblewrap":
            from labrunner.sandbox.bubblewrap import BubblewrapMaker

            return BubblewrapMaker()
        case "process":
            from labrunner.sandbox.process import ProcessMaker

            return ProcessMaker()
        case "fake":
            from labrunner.sandbox.fake import FakeMaker

            return FakeMaker()
        case "docker":
            from labrunner.sandbox.docker.maker import DockerMaker

            return DockerMaker()
        case "none":
            raise InputError("sandbox", "this task has no sandbox; give it one, such as bubblewrap or docker")
        case _:
            assert_never(kind)
