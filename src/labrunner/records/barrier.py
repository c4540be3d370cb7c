"""The barrier: what is noted there, how it can be held, and what each way proves."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

import msgspec

from labrunner.records.completion import PhaseFact

FRESH: Final = "fresh_container"
PROVES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "restarted": "every process of the agent was ended with its container; the grader's wrapper is new",
        "separate_user": "the agent's user can't touch the wrapper, and no process of it was left",
        FRESH: "the grader's container never held an agent",
        "pid_namespace": "the kernel ended every process of the agent",
        "process_tree": "every process of the agent was seen to end; nothing else is kept from it",
    }
)
CHOSEN: Final = ("restarted", "separate_user", FRESH)
"""Ways of one kind of sandbox: which it is depends on the experiment."""


def explain_barrier(word: str) -> str:
    """A barrier's word with what it proves."""
    return f"{word}: {PROVES[word]}" if word in PROVES else word


class BarrierNote(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is noted of an attempt when its agent has ended: enough to grade it without its runner."""

    agent: PhaseFact
    setup: PhaseFact | None = None
    phases_s: dict[str, float] = {}
    usage: dict[str, float | int] = {}
    boot_id: str = ""
    """In which boot of the machine the agent ended: in another one, what it left may be lost."""
    node: str = ""
    """On which node of a cluster the agent ended; empty for the coordinator's own machine."""
