"""What an engine has of a run, asked without the run's own code."""

from pathlib import Path

from labrunner.sandbox.docker.engine.client import Engine
from labrunner.sandbox.docker.engine.labels import PLACE
from labrunner.sandbox.marks import RunMark


async def networks_of(run: Path) -> list[str]:
    """Names of the networks of a run that is called the-run."""
    engine = Engine()
    try:
        place = RunMark.of(run, "the-run").place
        return [each.name for each in await engine.networks(f"{PLACE}={place}")]
    finally:
        await engine.close()


async def containers_of(run: Path) -> list[str]:
    """Names of the containers of a run that is called the-run."""
    engine = Engine()
    try:
        place = RunMark.of(run, "the-run").place
        return [each.name for each in await engine.list(f"{PLACE}={place}")]
    finally:
        await engine.close()
