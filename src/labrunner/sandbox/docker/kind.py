"""Docker as a kind of sandbox. Light to import: the engine's client is loaded when it is needed."""

from typing import Final

from labrunner.errors import AttemptFailed, InputError
from labrunner.experiment.sandbox_kinds import DOCKER
from labrunner.sandbox.door import Check, SandboxMaker
from labrunner.sandbox.kind import SandboxKind
from labrunner.sandbox.sweeper import Sweeper


def _make(*, anew: bool) -> SandboxMaker:
    from labrunner.sandbox.docker.maker import DockerMaker

    return DockerMaker(trusts_proofs=not anew)


async def _examine() -> tuple[Check, ...]:
    """Ask the engine; no container is made."""
    from labrunner.sandbox.docker.engine.client import Engine
    from labrunner.sandbox.docker.probing.container_check import check_engine, check_room, unreachable

    try:
        engine = Engine()
        try:
            facts = await engine.facts()
        finally:
            await engine.close()
    except AttemptFailed as failure:
        return (unreachable(failure),)
    except InputError as error:
        return (Check(name=DOCKER, passed=False, message=str(error)),)
    return check_engine(facts), check_room(facts)


def _make_sweeper() -> Sweeper:
    from labrunner.sandbox.docker.sweeping import DockerSweeper

    return DockerSweeper()


KIND: Final = SandboxKind(
    make=_make, has_images=True, open_files=4, examine=_examine, make_sweeper=_make_sweeper
)
