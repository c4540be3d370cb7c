"""What a phase finds of its own: a home, a temporary folder, and what it reads as standard input."""

import itertools
import shutil
from pathlib import Path

from labrunner.sandbox.door import PhaseName
from labrunner.sandbox.paths import AGENTLAB


def lend_input(inputs: Path, source: Path | None) -> str:
    """Where a file for standard input lies inside; one that the container does not see is copied in."""
    if source is None:
        return "/dev/null"
    if source.parent != inputs:
        shutil.copyfile(source, inputs / ".stdin")
        return f"{AGENTLAB}/in/.stdin"
    return f"{AGENTLAB}/in/{source.name}"


def make_scratch(scratch: Path, name: PhaseName) -> str:
    """Make HOME and TMPDIR that no phase has had before; the name of their folder."""
    taken = {
        path.name for path in scratch.iterdir()
    }  # by earlier phases, or by an agent that planted what it liked
    names = itertools.chain([name], (f"{name}-{number}" for number in itertools.count(2)))
    place = scratch / next(free for free in names if free not in taken)
    for folder in (place, place / "home", place / "tmp"):
        folder.mkdir(mode=0o700)
    return place.name
