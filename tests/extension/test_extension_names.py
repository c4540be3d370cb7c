"""`labrunner.extension` has every name of ours that somebody needs who implements a door."""

import inspect
import typing
from collections.abc import Iterator

import pytest

from labrunner import extension

PROTOCOLS = [
    each for name in extension.__all__ if getattr(each := getattr(extension, name), "_is_protocol", False)
]


def ours_in(annotation: object) -> Iterator[str]:
    """The names of our classes in an annotation, however deep."""
    if isinstance(annotation, list):  # what a callable takes
        for each in annotation:
            yield from ours_in(each)
    elif arguments := typing.get_args(annotation):
        for each in arguments:
            yield from ours_in(each)
    elif inspect.isclass(annotation) and annotation.__module__.startswith("labrunner."):
        yield annotation.__name__


def signatures(protocol: type) -> Iterator[tuple[str, object]]:
    """What a door's methods and properties take and give, each with its method's name."""
    for name, member in vars(protocol).items():
        method = member.fget if isinstance(member, property) else member
        if name.startswith("_") or not inspect.isfunction(method):
            continue
        for annotation in typing.get_type_hints(method).values():
            yield name, annotation


def test_there_are_doors() -> None:
    assert {"Sandbox", "SandboxMaker", "ExecSandbox", "TerminalSandbox", "Executor", "Sweeper"} <= {
        each.__name__ for each in PROTOCOLS
    }


@pytest.mark.parametrize("protocol", PROTOCOLS, ids=lambda protocol: protocol.__name__)
def test_what_goes_through_a_door_is_exported(protocol: type) -> None:
    needed = {(name, ours) for name, annotation in signatures(protocol) for ours in ours_in(annotation)}
    assert not {(name, ours) for name, ours in needed if ours not in extension.__all__}


def test_what_doors_demand_to_be_raised_is_exported() -> None:
    assert {"InputError", "SandboxFailed", "SetupFailed"} <= set(extension.__all__)
