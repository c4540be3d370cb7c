"""Kinds of sandboxes by name, as far as an experiment must know them.

Rule: whoever decides by a name takes it from here; elsewhere names stand only in sentences for people.

What a kind is made of is `labrunner.sandbox`'s; a name leads there when it is asked for.
"""

from dataclasses import dataclass
from typing import Final, TypeGuard

from labrunner.registry import Registry

DOCKER: Final = "docker"
BUBBLEWRAP: Final = "bubblewrap"
PROCESS: Final = "process"


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxFacts:
    """What an experiment must know of a kind to be resolved."""

    has_images: bool = False
    """Whether it runs images: `image`, `build`, a Dockerfile beside a Python task."""
    isolates_network: bool = True
    """Whether it can keep a phase off the network; else every phase has the host's."""


def _is_kind(found: object) -> TypeGuard[SandboxFacts]:
    return isinstance(found, SandboxFacts)


KINDS: Final = Registry(
    group="labrunner.sandboxes",
    noun="sandbox kind",
    built_in={
        BUBBLEWRAP: "labrunner.sandbox.bubblewrap.kind:KIND",
        DOCKER: "labrunner.sandbox.docker.kind:KIND",
        PROCESS: "labrunner.sandbox.bare:KIND",
    },
    accepts=_is_kind,
    wanted="a SandboxKind",
)


def default_kind(*, is_imaged: bool) -> str:
    """The kind of whoever names none: by whether an image is named anywhere."""
    return DOCKER if is_imaged else BUBBLEWRAP


def has_images(kind: object) -> bool:
    """Whether what somebody wrote is a kind that runs images; one that nobody brings is not refused here."""
    return isinstance(kind, str) and KINDS.has(kind) and KINDS.find(kind, "sandbox").has_images


def check_kind(name: str) -> str:
    """Refuse a name that nobody brings."""
    if not KINDS.has(name):
        raise ValueError(KINDS.describe_unknown(name))
    return name
