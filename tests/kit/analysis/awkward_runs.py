"""Thirty runs of every awkward kind, made on disk."""

import json
import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from labrunner.experiment.resolved import DeclaredMetric, Experiment
from labrunner.experiment.schedule import Slot
from labrunner.records.cause import Cause
from labrunner.records.facts.invalidation import InvalidationRow
from labrunner.store.checking.invalidations import add_invalidations
from labrunner.store.layout import RunPaths
from tests.kit.made_runs import Told, make_grid, write_run

Plan = tuple[Experiment, Callable[[Slot], Told | None]]


@dataclass(frozen=True)
class Shape:
    """What a run is like."""

    tasks: int = 12
    variants: tuple[str, ...] = ("a", "b")
    trials: int = 3
    rates: tuple[float, ...] = (0.4, 0.7, 0.5, 0.2)
    errors: float = 0.0
    retried: float = 0.0
    group_sizes: tuple[int, ...] = ()
    metric: DeclaredMetric | None = None
    name: str = "solved"
    cost: float = 0.0
    """Share of trials that tell what they cost."""
    finished: float = 1.0
    invalid: int = 0
    flat: float | None = None
    """Every score, where all are the same."""
    low: float = 0.0
    high: float = 1.0
    is_rate: bool = True
    population: str = "tasks_like_these"
    tags: int = 0
    absurd: bool = False
    mixed: bool = False
    is_steady: bool = False
    """Whether trials of a task all end alike."""
    swept: int = 0
    """So many tasks the first variant never solves, and others always."""


SECONDS = DeclaredMetric(name="seconds", better="lower", min=0.0)
SHARE = DeclaredMetric(name="share", min=0.0, max=1.0)
HUNDRED = DeclaredMetric(name="points", min=0.0, max=100.0)
POINTS = DeclaredMetric(name="points", min=-10.0, max=30.0)
SHAPES = {
    "plain": Shape(),
    "one task": Shape(tasks=1),
    "two tasks": Shape(tasks=2),
    "five tasks": Shape(tasks=5),
    "six tasks, one trial": Shape(tasks=6, trials=1),
    "one trial": Shape(trials=1, tasks=30),
    "a clean sweep": Shape(tasks=12, trials=1, swept=12),
    "nearly a sweep": Shape(tasks=9, swept=8, flat=1.0, variants=("a", "b", "c")),
    "six tasks swept of three variants": Shape(tasks=6, swept=6, variants=("a", "b", "c")),
    "three swept once": Shape(tasks=3, trials=1, swept=3, population="these_tasks"),
    "groups of single trials": Shape(tasks=24, trials=1, group_sizes=(3,) * 8),
    "ten trials": Shape(trials=10, tasks=8),
    "one variant": Shape(variants=("a",)),
    "four variants": Shape(variants=("a", "b", "c", "d"), tasks=20),
    "all pass": Shape(flat=1.0),
    "all fail": Shape(flat=0.0),
    "steady": Shape(is_steady=True, tasks=15),
    "nothing graded": Shape(errors=1.0),
    "some errors": Shape(errors=0.15, tasks=20),
    "many errors": Shape(errors=0.6, trials=2),
    "retried": Shape(retried=0.2, tasks=20),
    "retried and errors": Shape(retried=0.3, errors=0.1, tasks=15),
    "equal groups": Shape(tasks=24, group_sizes=(4,) * 6),
    "unequal groups": Shape(tasks=29, group_sizes=(20, *(1,) * 9), trials=2),
    "few groups": Shape(tasks=12, group_sizes=(6, 4, 2)),
    "one group": Shape(tasks=8, group_sizes=(8,)),
    "some groups": Shape(tasks=20, group_sizes=(5, 3, 4)),
    "seconds": Shape(metric=SECONDS, name="seconds", is_rate=False, low=1.0, high=90.0),
    "share": Shape(metric=SHARE, name="share", is_rate=False, errors=0.1, tasks=16),
    "share of single trials": Shape(metric=SHARE, name="share", is_rate=False, trials=1, tasks=9),
    "points below zero": Shape(metric=POINTS, name="points", is_rate=False, low=-9.0, high=29.0, retried=0.1),
    "no point of a hundred": Shape(metric=HUNDRED, name="points", flat=0.0),
    "undeclared": Shape(name="thing", is_rate=False, low=0.0, high=1.0, errors=0.05),
    "mixed metrics": Shape(mixed=True),
    "absurd": Shape(name="thing", is_rate=False, low=0.0, high=5.0, absurd=True),
    "interrupted": Shape(finished=0.3, tasks=20),
    "invalidated": Shape(invalid=5, errors=0.1),
    "costs": Shape(cost=1.0, retried=0.2, tasks=16),
    "some costs": Shape(cost=0.5, variants=("a", "b", "c"), tasks=16, group_sizes=(4,) * 4),
    "these tasks": Shape(population="these_tasks", tasks=4, trials=5, errors=0.05),
    "seconds of these tasks": Shape(
        population="these_tasks",
        metric=SECONDS,
        name="seconds",
        is_rate=False,
        low=1.0,
        high=90.0,
        tasks=5,
        errors=0.1,
    ),
    "tags": Shape(tags=3, tasks=24),
    "large": Shape(tasks=300, trials=2),
}


def make(folder: Path, name: str) -> tuple[RunPaths, set[str]]:
    """Write one of them; and which of its trials were marked as not to be used."""
    shape = SHAPES[name]
    experiment = _experiment(shape)
    chance = random.Random(name)
    hard = {task.id: chance.betavariate(0.8, 0.8) for task in experiment.tasks}
    slots = len(experiment.tasks) * len(experiment.variants) * shape.trials
    paths = write_run(
        folder,
        experiment,
        lambda slot: _tell(shape, slot, hard, chance) if slot.schedule_idx < shape.finished * slots else None,
        run_id=name.replace(" ", "-").replace(",", ""),
    )
    rows = [json.loads(line) for line in paths.trials.read_text().splitlines()[: 3 * shape.invalid : 3]]
    marks = [
        InvalidationRow(
            schema_version="invalidation_v1",
            trial_id=row["ids"]["trial_id"],
            schedule_idx=row["schedule_idx"],
            reason="made",
            who="somebody",
            at="2026-01-01T00:00:00Z",
        )
        for row in rows
    ]
    if marks:
        add_invalidations(paths, marks)
    return paths, {mark.trial_id for mark in marks}


def _experiment(shape: Shape) -> Experiment:
    plain = make_grid(tasks=shape.tasks, variants=shape.variants, replications=shape.trials)
    groups = [f"g{number}" for number, size in enumerate(shape.group_sizes) for _ in range(size)]
    tasks = tuple(
        replace(
            task,
            group=groups[number] if number < len(groups) else None,
            grader=replace(task.grader, metric=shape.metric),
            tags=(f"tag{number % shape.tags}",) if shape.tags else (),
        )
        for number, task in enumerate(plain.tasks)
    )
    return replace(plain, tasks=tasks, population=shape.population)  # type: ignore[arg-type] # one of two words


def _tell(shape: Shape, slot: Slot, hard: dict[str, float], chance: random.Random) -> Told:
    usage = {"cost_usd": chance.uniform(0.01, 0.2)} if chance.random() < shape.cost else {}
    failures = (Cause.PROVIDER,) * (1 + (chance.random() < 0.3)) if chance.random() < shape.retried else ()
    if chance.random() < shape.errors:
        return Told(value=None, errors=(*failures, Cause.SANDBOX), usage=usage)
    if shape.absurd and slot.schedule_idx == 3:
        return Told(value=-1e200, metric=shape.name, passes=False)
    rate = (hard[f"t{slot.task_idx}"] + shape.rates[slot.variant_idx]) / 2
    metric = f"m{slot.task_idx % 2}" if shape.mixed else shape.name
    if slot.task_idx < shape.swept:
        return Told(value=float(slot.variant_idx > 0), metric=metric)
    if shape.flat is not None:
        return Told(value=shape.flat, metric=metric, errors=failures, usage=usage)
    if shape.is_rate:
        luck = random.Random(slot.task_idx).random() if shape.is_steady else chance.random()
        return Told(value=float(luck < rate), metric=metric, errors=failures, usage=usage)
    share = min(1.0, max(0.0, chance.gauss(rate, 0.2)))
    value = shape.low + share * (shape.high - shape.low)
    return Told(value=value, metric=metric, passes=share > 0.5, errors=failures, usage=usage)
