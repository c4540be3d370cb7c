"""What stands behind the names of one door: built in, or brought by another package through an entry point.

Rules: what is built in is loaded when its name is asked for. Installed packages are looked at only for a name
that is not built in, and when all are listed. A name has one owner: a built-in one is never replaced, and one
that two packages bring is refused until one of them is gone.
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import Final, Generic, TypeGuard, TypeVar

from labrunner.errors import InputError

BUILT_IN: Final = "built in"
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """A name that a door knows, and where it comes from."""

    name: str
    origin: str
    """`built in`, or package and version."""
    target: str
    """What the name stands for: module:attribute."""
    problem: str = ""
    """Why it can't be used; empty when nothing is known against it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Registry(Generic[T]):
    """The names of one door."""

    group: str
    """Of entry points: where other packages add to it."""
    noun: str
    """What one of these is called in messages."""
    built_in: Mapping[str, str]
    """Name to module:attribute."""
    accepts: Callable[[object], TypeGuard[T]]
    wanted: str
    """What `accepts` asks for, in words."""

    def has(self, name: str) -> bool:
        """Whether somebody brings this name."""
        return name in self.built_in or bool(self._brought(name))

    def find(self, name: str, where: str) -> T:
        """Load what a name stands for; `where` says who asks, for a message."""
        target = self.built_in.get(name)
        if target is not None:
            return self._checked(name, _load_built_in(target), where)
        points = self._brought(name)
        if not points:
            raise InputError(where, self.describe_unknown(name))
        if len(points) > 1:
            raise InputError(where, self._describe_rivals(name, points))
        return self._checked(name, self._load(points[0], where), where, points[0])

    def describe_unknown(self, name: str) -> str:
        """Say that nobody brings a name, and which names there are."""
        origins: dict[str, list[str]] = {}
        for each in self.list_known():
            origins.setdefault(each.origin, []).append(each.name)
        told = "; ".join(f"{', '.join(names)} ({origin})" for origin, names in origins.items())
        return f"there is no {self.noun} {name!r}; known: {told or 'none: no installed package brings one'}"

    def list_known(self) -> tuple[Known, ...]:
        """Every name, built-in ones first; nothing is loaded by this."""
        own = [Known(name=name, origin=BUILT_IN, target=target) for name, target in self.built_in.items()]
        points = sorted(_installed(self.group), key=lambda point: (point.name, _package(point)))
        return (*own, *(self._describe(point, points) for point in points))

    def try_all(self) -> tuple[Known, ...]:
        """Every name, with what is wrong with those that other packages bring: each is loaded."""
        return tuple(each if each.problem else self._tried(each) for each in self.list_known())

    def _tried(self, known: Known) -> Known:
        if known.origin == BUILT_IN:
            return known
        try:
            self.find(known.name, "")
        except InputError as error:
            return Known(name=known.name, origin=known.origin, target=known.target, problem=error.problem)
        return known

    def _describe(self, point: EntryPoint, every: Sequence[EntryPoint]) -> Known:
        rivals = [each for each in every if each.name == point.name]
        problem = ""
        if point.name in self.built_in:
            problem = f"is not used: the {self.noun} {point.name!r} is built in; give it another name"
        elif len(rivals) > 1:
            problem = self._describe_rivals(point.name, rivals)
        return Known(name=point.name, origin=_package(point), target=point.value, problem=problem)

    def _brought(self, name: str) -> list[EntryPoint]:
        return [point for point in _installed(self.group) if point.name == name]

    def _load(self, point: EntryPoint, where: str) -> object:
        try:
            return point.load()
        except (Exception, SystemExit) as error:
            told = f"the {self.noun} {point.name!r} can't be loaded ({_cite(point)})"
            raise InputError(where, f"{told}: {type(error).__name__}: {error}") from error

    def _checked(self, name: str, found: object, where: str, point: EntryPoint | None = None) -> T:
        if self.accepts(found):
            return found
        whose = _cite(point) if point is not None else self.built_in[name]
        described = found.__name__ if isinstance(found, type) else f"a {type(found).__name__}"
        told = f"the {self.noun} {name!r} ({whose}) must be {self.wanted}, found {described}"
        raise InputError(where, told)

    def _describe_rivals(self, name: str, points: Sequence[EntryPoint]) -> str:
        whose = " and ".join(_cite(point) for point in points)
        return f"the {self.noun} {name!r} is brought by {whose}; uninstall all but one"


def _installed(group: str) -> tuple[EntryPoint, ...]:
    return _read_installed(group, tuple(sys.path))


@cache
def _read_installed(group: str, path: tuple[str, ...]) -> tuple[EntryPoint, ...]:
    """Look at installed packages, once for each way of finding them."""
    del path
    return tuple(entry_points(group=group))


def _package(point: EntryPoint) -> str:
    return "an unnamed package" if point.dist is None else f"{point.dist.name} {point.dist.version}"


def _cite(point: EntryPoint) -> str:
    return f"{_package(point)}, entry point {point.name} = {point.value}"


def _load_built_in(target: str) -> object:
    module, _, attribute = target.partition(":")
    found: object = getattr(import_module(module), attribute)
    return found
