"""What an experiment file can ask for and this version can't do yet: refused, one row each, never ignored."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from labrunner.experiment.authoring.authored import (
    AgentPart,
    GraderPart,
    Part,
    SetupPart,
)
from labrunner.experiment.authoring.problems import Problems

_ALLOW: Final = "allow-lists are not built yet; write none or full"


@dataclass(frozen=True, slots=True, kw_only=True)
class Unbuilt:
    """A field, the values of it that can't be had yet, and what to tell their author."""

    field: str
    asks: Callable[[Any], bool]
    sentence: str


def _is_allow_list(network: Any) -> bool:  # noqa: ANN401 - one signature for all rows
    return bool(network.mode == "allow")


_NETWORK: Final = Unbuilt(field="network", asks=_is_allow_list, sentence=_ALLOW)

UNBUILT: Final[Mapping[type[Part], tuple[Unbuilt, ...]]] = {
    SetupPart: (_NETWORK,),
    AgentPart: (_NETWORK,),
    GraderPart: (_NETWORK,),
}


def refuse_unbuilt(part: Part, where: Callable[[str], str], problems: Problems) -> None:
    """Note every field of a part that asks for something that can't be had yet."""
    for row in UNBUILT.get(type(part), ()):
        if row.asks(getattr(part, row.field)):
            problems.add(where(row.field), row.sentence)
