"""Which tasks and variants of an experiment are run.

A pattern that matches nothing is a mistake, not an empty answer: it is refused, with what comes nearest.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Protocol, TypeVar

from labrunner.experiment.authoring.problems import Problems, listed, nearest


class Tagged(Protocol):
    """Something with an id and tags."""

    @property
    def id(self) -> str:
        """Its name."""
        ...

    @property
    def tags(self) -> Sequence[str]:
        """Its tags."""
        ...


class Named(Protocol):
    """Something with an id."""

    @property
    def id(self) -> str:
        """Its name."""
        ...


T = TypeVar("T", bound=Tagged)
N = TypeVar("N", bound=Named)


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskFilter:
    """What is taken, in this order: included, not excluded, tagged, the first so many."""

    include: Sequence[str] = ()
    exclude: Sequence[str] = ()
    tags: Sequence[str] = ()
    limit: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FilterNames:
    """Where each filter was written, for messages."""

    include: str
    exclude: str
    tags: str


def select_tasks(
    tasks: Sequence[T], choice: TaskFilter, names: FilterNames, problems: Problems
) -> Sequence[T]:
    """Take the tasks that a filter asks for, in their order."""
    ids, before = [task.id for task in tasks], len(problems)
    for pattern, where in [(each, names.include) for each in choice.include] + [
        (each, names.exclude) for each in choice.exclude
    ]:
        if not any(matches(each, pattern) for each in ids):
            problems.add(where, f"no task's id matches '{pattern}'; nearest: {nearest(pattern, ids)}")
    _check_tags(tasks, choice.tags, names.tags, problems)
    taken = [task for task in tasks if _is_taken(task, choice)]
    if tasks and not taken and len(problems) == before:
        problems.add(names.include, f"the filters together leave none of the {len(tasks)} tasks")
    return taken[: choice.limit]


def select_variants(variants: Sequence[N], ids: Sequence[str], where: str, problems: Problems) -> Sequence[N]:
    """Take the variants with these ids, in the experiment's order; no ids take all."""
    known = [variant.id for variant in variants]
    for wanted in ids:
        if wanted not in known:
            problems.add(where, f"there is no variant '{wanted}'; known: {listed(known)}")
    return [variant for variant in variants if not ids or variant.id in ids]


def matches(name: str, pattern: str) -> bool:
    """Whether an id is what a pattern asks for. An id always matches itself, whatever characters it holds."""
    return name == pattern or fnmatchcase(name, pattern)


def _check_tags(tasks: Iterable[Tagged], wanted: Sequence[str], where: str, problems: Problems) -> None:
    known = {tag for task in tasks for tag in task.tags} if wanted else set()
    for tag in wanted:
        if tag not in known:
            listing = listed(sorted(known)) or "none"
            problems.add(where, f"no task has the tag '{tag}'; known: {listing}")


def _is_taken(task: Tagged, choice: TaskFilter) -> bool:
    included = not choice.include or any(matches(task.id, pattern) for pattern in choice.include)
    excluded = any(matches(task.id, pattern) for pattern in choice.exclude)
    tagged = not choice.tags or not set(choice.tags).isdisjoint(task.tags)
    return included and not excluded and tagged
