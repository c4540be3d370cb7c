"""What differs between two experiments in what is measured, in sentences for people."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from labrunner.experiment.authoring.problems import listed
from labrunner.experiment.digests import measured, measured_change, measured_solution
from labrunner.experiment.resolved import Experiment, TaskSpec, Variant

_PLAIN: Final = (
    "replications",
    "order",
    "seed",
    "trust",
    "collect",
    "grade_on_agent_failure",
)


def changes(old: Experiment, new: Experiment) -> tuple[str, ...]:
    """Say what of the measured question changed; nothing when the digests agree."""
    if old.digest == new.digest:
        return ()
    return (
        *_plain(old, new),
        *_members("task", old.tasks, new.tasks),
        *_members("variant", old.variants, new.variants),
        *_solutions(old, new),
    )


def _plain(old: Experiment, new: Experiment) -> Iterator[str]:
    for name in _PLAIN:
        before, after = getattr(old, name), getattr(new, name)
        if before != after:
            yield f"{name} was {_shown(before)}, now {_shown(after)}"
    if measured_change(old) != measured_change(new):
        yield f"on_system_change was {old.on_system_change}, now {new.on_system_change}"


def _solutions(old: Experiment, new: Experiment) -> Iterator[str]:
    """Solutions count where the oracle carries them out."""
    if not any(variant.agent.runs_solution for variant in new.variants):
        return
    before = {task.id: measured_solution(task) for task in old.tasks}
    changed = [
        task.id for task in new.tasks if task.id in before and before[task.id] != measured_solution(task)
    ]
    if changed:
        yield f"solution changed for tasks: {listed(changed)}"


def _members(
    what: str, old: Sequence[TaskSpec] | Sequence[Variant], new: Sequence[TaskSpec] | Sequence[Variant]
) -> Iterator[str]:
    before: Mapping[str, TaskSpec | Variant] = {each.id: each for each in old}
    after: Mapping[str, TaskSpec | Variant] = {each.id: each for each in new}
    if added := [name for name in after if name not in before]:
        yield f"{what}s added: {listed(added)}"
    if removed := [name for name in before if name not in after]:
        yield f"{what}s removed: {listed(removed)}"
    same = [name for name in after if name in before]
    yield from _changed(what, [(before[name], after[name]) for name in same])
    if not added and not removed and same != list(before):
        yield f"the order of the {what}s changed"


def _changed(what: str, pairs: Sequence[tuple[TaskSpec | Variant, TaskSpec | Variant]]) -> Iterator[str]:
    for fields, names in group_by_change(pairs).items():
        yield f"{', '.join(fields)} changed for {what}s: {listed(names)}"


def group_by_change(
    pairs: Iterable[tuple[TaskSpec | Variant, TaskSpec | Variant]],
) -> dict[tuple[str, ...], list[str]]:
    """Members by the fields that differ, so that one new grader is one sentence."""
    by_fields: dict[tuple[str, ...], list[str]] = {}
    for old, new in pairs:
        if old.digest != new.digest:
            by_fields.setdefault(_fields(measured(old), measured(new)), []).append(new.id)
    return by_fields


def _fields(old: Mapping[str, object], new: Mapping[str, object]) -> tuple[str, ...]:
    changed: list[str] = []
    for name in dict.fromkeys([*new, *old]):
        before, after = old.get(name), new.get(name)
        if before == after:
            continue
        if not isinstance(before, dict) or not isinstance(after, dict):
            changed.append(name)
        elif name == "program":
            changed += _of_program(before, after)
        elif name in ("agent", "setup", "sandbox", "grader"):
            inner = dict.fromkeys([*after, *before])
            changed += [f"{name}.{each}" for each in inner if before.get(each) != after.get(each)]
        else:
            changed.append(name)
    return tuple(changed)


def _of_program(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[str]:
    """Name what differs of a Python task: its file, the modules that it imports, or what it was made with."""
    for name, after in new.items():
        before = old.get(name)
        if before == after:
            continue
        if name == "file":
            yield "the task's file"
        elif name == "modules":
            known = before or {}
            names = [each for each in sorted({*known, *after}) if known.get(each) != after.get(each)]
            yield f"{'module' if len(names) == 1 else 'modules'} {listed(names)}"
        else:
            yield f"program.{name}"


def _shown(value: object) -> str:
    return ", ".join(value) or "empty" if isinstance(value, tuple) else str(value)
