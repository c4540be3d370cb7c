"""Which maker stands behind the name of a sandbox kind."""

from collections.abc import Callable
from functools import cache, partial

from labrunner.errors import InputError
from labrunner.experiment.resolved import NO_SANDBOX
from labrunner.experiment.sandbox_kinds import KINDS
from labrunner.sandbox.door import SandboxMaker
from labrunner.sandbox.kind import SandboxKind


def remember(*, anew: bool = False) -> Callable[[str], SandboxMaker]:
    """Make each kind once: what preflight found out is what the run is then carried out with.

    `anew` lets preflight try everything, whatever it has proven before.
    """
    return cache(partial(make, anew=anew))


def make(kind: str, *, anew: bool = False) -> SandboxMaker:
    """Return a maker of that kind; nothing is started or probed by this."""
    if kind == NO_SANDBOX:
        raise InputError("sandbox", "this task has no sandbox; give it one, such as bubblewrap or docker")
    made: object = find_kind(kind).make(anew=anew)
    if not isinstance(made, SandboxMaker):
        told = f"the sandbox kind {kind!r} must make a SandboxMaker, found a {type(made).__name__}"
        raise InputError("sandbox", told)
    return made


def find_kind(name: str) -> SandboxKind:
    """Load a kind."""
    found = KINDS.find(name, "sandbox")
    if not isinstance(found, SandboxKind):
        raise InputError("sandbox", f"the sandbox kind {name!r} must be a SandboxKind, found its facts only")
    return found
