"""Which maker stands behind the name of a sandbox kind."""

from collections.abc import Callable
from functools import cache, partial
from typing import assert_never

from labrunner.errors import InputError
from labrunner.experiment.resolved import SandboxKind
from labrunner.sandbox.door import SandboxMaker


def remember(*, anew: bool = False) -> Callable[[SandboxKind], SandboxMaker]:
    """Make each kind once: what preflight found out is what the run is then carried out with.

    `anew` lets preflight try everything, whatever it has proven before.
    """
    return cache(partial(make, anew=anew))


def make(kind: SandboxKind, *, anew: bool = False) -> SandboxMaker:
    """Return a maker of that kind; nothing is started or probed by this."""
    match kind:
        case "bubblewrap":
            from labrunner.sandbox.bubblewrap.namespaced import BubblewrapMaker

            return BubblewrapMaker()
        case "process":
            from labrunner.sandbox.bare import ProcessMaker

            return ProcessMaker()
        case "fake":
            from labrunner.sandbox.fake import FakeMaker

            return FakeMaker()
        case "docker":
            from labrunner.sandbox.docker.maker import DockerMaker

            return DockerMaker(trusts_proofs=not anew)
        case "none":
            raise InputError("sandbox", "this task has no sandbox; give it one, such as bubblewrap or docker")
        case _:
            assert_never(kind)
