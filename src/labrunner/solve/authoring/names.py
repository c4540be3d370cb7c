"""Solvers and scorers by name: what stands as text in a task, an option or `eval()`."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias, TypeGuard

from labrunner.errors import InputError
from labrunner.registry import Registry

Factory: TypeAlias = Callable[..., Any]
"""What a function with `@solver` or `@scorer` above it is: called, it gives a solver or a scorer."""


def _is_factory(found: object) -> TypeGuard[Factory]:
    return callable(found)


SOLVERS: Final = Registry(
    group="labrunner.solvers",
    noun="solver",
    built_in={
        "generate": "labrunner.solve.library.solvers:generate",
        "chain_of_thought": "labrunner.solve.library.solvers:chain_of_thought",
        "multiple_choice": "labrunner.solve.library.solvers:multiple_choice",
        "prompt_template": "labrunner.solve.library.solvers:prompt_template",
        "system_message": "labrunner.solve.library.solvers:system_message",
        "user_message": "labrunner.solve.library.solvers:user_message",
        "assistant_message": "labrunner.solve.library.solvers:assistant_message",
        "react": "labrunner.solve.library.react:react",
    },
    accepts=_is_factory,
    wanted="a function that gives a solver",
)
SCORERS: Final = Registry(
    group="labrunner.scorers",
    noun="scorer",
    built_in={
        "match": "labrunner.solve.library.scorers:match",
        "includes": "labrunner.solve.library.scorers:includes",
        "exact": "labrunner.solve.library.scorers:exact",
        "answer": "labrunner.solve.library.scorers:answer",
        "choice": "labrunner.solve.library.scorers:choice",
        "pattern": "labrunner.solve.library.scorers:pattern",
        "model_graded": "labrunner.solve.library.modelgraded:model_graded",
        "model_graded_qa": "labrunner.solve.library.modelgraded:model_graded_qa",
        "model_graded_fact": "labrunner.solve.library.modelgraded:model_graded_fact",
    },
    accepts=_is_factory,
    wanted="a function that gives a scorer",
)


def make_named(door: Registry[Factory], name: str, arguments: Mapping[str, Any], where: str) -> Any:  # noqa: ANN401
    """Make the solver or scorer of that name, with these arguments: a function, or a command."""
    factory = door.find(name, where)
    try:
        return factory(**arguments)
    except TypeError as error:
        raise InputError(where, f"the {door.noun} {name!r} can't be made: {error}") from error


def replace_names(door: Registry[Factory], given: Any, where: str) -> Any:  # noqa: ANN401 - what a task takes
    """What a task holds as solver or scorer, with what names stand for in their place."""
    if isinstance(given, str):
        return make_named(door, given, {}, where)
    if isinstance(given, Sequence):
        return [replace_names(door, each, where) for each in given]
    return given
