"""Which names may be put into which text: the agent sees other things than the grader.

Rules: nothing of the grader can be named where the agent reads. Graders and tasks are the same for every
variant, so bindings can't be named there: a grader that wants them reads `bindings.json`.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from labrunner.experiment.authoring.authored import VariantPart
from labrunner.experiment.authoring.problems import Problems
from labrunner.experiment.authoring.section import Spot
from labrunner.experiment.substitution import (
    BUILT_INS,
    UnfitBinding,
    UnknownName,
    bind,
    expand,
    names_in,
)

_INSIDE: Final = "is a path inside the sandbox, so it can't be used here"
_HIDDEN: Final = "is hidden: the grader's files are not there before the agent has ended"
_GONE: Final = "can't be used here: only the agent and its setup see the agent's folder"
_NO_DIR: Final = "is used, but agent.dir names no folder"
_ALIKE: Final = (
    "is a binding of a variant, and tasks and graders are the same for all of them; "
    "read it from the file that $$AGENTLAB_BINDINGS_PATH names"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Names:
    """What may be named in some text, and why other known names may not."""

    whose: str = "here"
    """Where, or for which variant, these names are known."""
    bindings: Mapping[str, object] = field(default_factory=dict)
    built_ins: tuple[str, ...] = ()
    refused: Mapping[str, str] = field(default_factory=dict)


def agent_names(variant: VariantPart, *, has_dir: bool) -> Names:
    """Names for commands and variables of agent and setup."""
    refused = {"grader_dir": _HIDDEN} if has_dir else {"grader_dir": _HIDDEN, "agent_dir": _NO_DIR}
    return Names(
        whose=f"in variant '{variant.id}'",
        bindings=variant.bindings,
        built_ins=_without(refused),
        refused=refused,
    )


def grader_names(bound: Iterable[str]) -> Names:
    """Names for a grader; `bound` are the names of the variants' bindings."""
    refused = dict.fromkeys(bound, _ALIKE) | {"agent_dir": _GONE}
    return Names(built_ins=_without(refused), refused=refused)


def task_names(bound: Iterable[str]) -> Names:
    """Names for a task's own setup and variables, which agent and grader share."""
    refused = dict.fromkeys(bound, _ALIKE) | {"grader_dir": _HIDDEN, "agent_dir": _GONE}
    return Names(built_ins=_without(refused), refused=refused)


def solution_names(bound: Iterable[str], *, has_dir: bool) -> Names:
    """Names for a task's solution, whose folder is the oracle's own."""
    refused = dict.fromkeys(bound, _ALIKE) | {"grader_dir": _HIDDEN}
    refused |= {} if has_dir else {"agent_dir": "is used, but solution.dir names no folder"}
    return Names(built_ins=_without(refused), refused=refused)


def path_names(bindings: Mapping[str, object]) -> Names:
    """Names for folders and images, which are looked up before there is a sandbox."""
    return Names(bindings=bindings, refused=dict.fromkeys(BUILT_INS, _INSIDE))


def fill(text: str, names: Names, spot: Spot, problems: Problems) -> str:
    """Put bindings into a text; built-in names stay for the sandbox."""
    for name in sorted(names_in(text) & names.refused.keys()):
        problems.add(spot.where, f"${name} {names.refused[name]}")
    try:
        return bind(text, names.bindings, (*names.built_ins, *names.refused))
    except UnknownName as error:
        known = ", ".join(f"${each}" for each in sorted({*names.bindings, *names.built_ins})) or "none"
        problems.add(spot.where, f"{error}; known {names.whose}: {known}; write $$ for a dollar sign")
    except UnfitBinding as error:
        problems.add(spot.where, f"{error} ({names.whose})")
    return ""


def fill_all(texts: Iterable[str], names: Names, spot: Spot, problems: Problems) -> tuple[str, ...]:
    """Put bindings into each text of a command."""
    return tuple(fill(text, names, spot, problems) for text in texts)


def fill_env(env: Mapping[str, str | None], names: Names, spot: Spot, problems: Problems) -> dict[str, str]:
    """Put bindings into the values of variables; those that were taken away are gone."""
    return {
        name: fill(value, names, spot.at(name), problems) for name, value in env.items() if value is not None
    }


def fill_path(text: str, bindings: Mapping[str, object], spot: Spot, problems: Problems) -> str | None:
    """Give the final text of a folder's or image's name."""
    before = len(problems)
    filled = fill(text, path_names(bindings), spot, problems)
    return expand(filled, {}) if len(problems) == before else None


def _without(refused: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(name for name in BUILT_INS if name not in refused)
