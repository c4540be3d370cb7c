"""The filter of system calls that containers get, where the engine's own leaves the hypervisor reachable.

Sockets to the hypervisor (AF_VSOCK) belong to no network namespace: without a rule against them, "no network"
does not hold in a virtual machine. Engines from 25 on refuse them in their own filter, and io_uring, which
opens sockets unseen by any filter. An engine takes a whole filter or none, so older ones get `seccomp.json`:
that of moby 20.10.24 (profiles/seccomp/default.json, Apache License 2.0), less what it allows of AF_VSOCK,
socketcall (whose arguments can't be looked at) and io_uring. Nothing is allowed in it that theirs refuses.
A filter that somebody chose for the engine is left alone.
"""

from collections.abc import Iterator
from functools import cache
from importlib import resources
from typing import Final

from labrunner.sandbox.docker.engine.replies import EngineFacts
from labrunner.sandbox.door import Check

KNOWN_SINCE: Final = (20, 10)
"""Older engines do not understand all of our filter, and would allow more than we mean."""
CLOSED_SINCE: Final = (25,)
BUILT_IN: Final = frozenset({"default", "builtin"})
"""How engines call a filter that nobody chose."""


def choose_filter(engine: EngineFacts) -> str | None:
    """The filter to give a container; None for the engine's own."""
    return read_filter() if _is_ours(engine) else None


@cache
def read_filter() -> str:
    """Our filter, as an engine wants it."""
    return resources.files("labrunner.sandbox.docker").joinpath("seccomp.json").read_text(encoding="utf-8")


def check_filter(engine: EngineFacts) -> Iterator[Check]:
    """Warn of an engine that leaves the hypervisor reachable, and that we can't close."""
    is_closed = engine.filter in BUILT_IN and engine.release >= CLOSED_SINCE
    if is_closed or _is_ours(engine):
        return
    found = f"its own filter ({engine.filter})" if engine.filter else "no filter of system calls"
    if engine.filter in BUILT_IN:
        found = f"one of before {'.'.join(map(str, KNOWN_SINCE))}"
    yield Check(
        name="network",
        passed=False,
        severity="warning",
        message=f"the engine uses {found}: agents without a network may reach the hypervisor of a virtual "
        "machine through AF_VSOCK; use an engine from 25 on with its built-in filter",
    )


def _is_ours(engine: EngineFacts) -> bool:
    return engine.filter in BUILT_IN and KNOWN_SINCE <= engine.release < CLOSED_SINCE
