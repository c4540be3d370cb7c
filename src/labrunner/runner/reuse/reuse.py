"""Which results of earlier runs a new run can take over, and why the others are run again.

Rules: a result is taken over only for the same task, variant and replication, with the same content of
task and variant; it must be graded, not in a system that its agent changed unless the new run would do that,
too, and not invalidated. Over several runs the newest good result wins:
a run that was itself cut short hides nothing of the runs before it. A result that was taken over is in
several runs: invalidated in one of them, it is not to be used from any. Where only the grader changed, or
only grading failed, the agent's work is judged anew if it was kept, until it is found unfit for that. Where
somebody vouches for edits of code, a result may come from code that is no longer there; see
`labrunner.runner.reuse.vouching`.
"""

from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from labrunner.errors import StoreError
from labrunner.experiment.digests import digest_tried
from labrunner.experiment.options.layers import read_overrides
from labrunner.experiment.resolved import Experiment
from labrunner.experiment.schedule import Schedule, Slot
from labrunner.records.barrier import FRESH
from labrunner.records.encoding.ids import Ids, make_trial_id
from labrunner.records.rows import TrialRow
from labrunner.records.run import Vouched
from labrunner.runner.reuse.regradable import (
    GradeAgain,
    Obstacles,
    find_work,
    has_work_in_image,
    is_regradable,
    was_spoilt,
    was_unfit,
)
from labrunner.runner.reuse.vouching import Vouching
from labrunner.store.buffering.loss import find_loss
from labrunner.store.checking.invalidations import read_invalidations
from labrunner.store.layout import RunPaths
from labrunner.store.reading.run_state import iter_trials
from labrunner.store.reading.survey import survey
from labrunner.store.rows.single_records import read_run

EXAMPLES = 3
_ITEM: Final = array("L").itemsize


@dataclass(frozen=True, slots=True, kw_only=True)
class ReuseSource:
    """A run whose results may be taken over."""

    paths: RunPaths
    invalidated: frozenset[str]
    """Trials whose result here is not to be used, wherever that was said of it."""
    loss: str | None
    """What is known to be lost of it."""
    damage: StoreError | None = None
    """Why nothing can be taken from it: its record is not as it was written."""
    replay: str | None = None
    """The run that it replays, if it does."""


@dataclass(slots=True, kw_only=True)
class ReusePlan:
    """For every slot of the new run: which source it is taken from, if any; and why not, counted."""

    sources: Sequence[ReuseSource]
    taken: "array[int]"
    """Per slot: 0 = run it, n = take it from source n - 1."""
    again: dict[int, GradeAgain] = field(default_factory=dict)
    """Of the slots that are not taken over: whose earlier work is only judged anew."""
    unfit: set[int] = field(default_factory=set)
    """Slots whose earlier work was found unfit to be judged: what is older is not tried again."""
    unusable: dict[int, StoreError] = field(default_factory=dict)
    """Sources that nothing is taken from, and why."""
    reasons: Counter[str] = field(default_factory=Counter)
    examples: dict[str, list[str]] = field(default_factory=dict)
    vouched: Vouched | None = None
    """What is taken over though code was edited since."""

    @property
    def reused(self) -> int:
        """How many slots are taken over."""
        return len(self.taken) - self.taken.count(0)

    @property
    def owed(self) -> int:
        """How many slots are to be run, agents and all."""
        return self.taken.count(0) - len(self.again)

    def is_reused(self, schedule_idx: int) -> bool:
        """Whether a slot is taken over."""
        return self.taken[schedule_idx] != 0

    def give_back(self, mark: int) -> None:
        """Run what was to be taken from a source."""
        for idx, number in enumerate(self.taken):
            if number == mark:
                self.taken[idx] = 0
        self.again = {idx: work for idx, work in self.again.items() if work.source != mark - 1}

    def slots_from(self, source: int) -> frozenset[int]:
        """Slots taken from one source."""
        return frozenset(idx for idx, number in enumerate(self.taken) if number == source + 1)


class SlotFinder:
    """Finds the slot of a new run that an old trial belongs to."""

    def __init__(self, experiment: Experiment, vouching: Vouching | None = None) -> None:
        """Index the experiment's tasks and variants by id."""
        self.experiment = experiment
        self.vouching = vouching
        self.schedule = Schedule.of(experiment)
        self._tasks = {task.id: number for number, task in enumerate(experiment.tasks)}
        self._variants = {variant.id: number for number, variant in enumerate(experiment.variants)}

    def find(self, row: TrialRow) -> int | None:
        """The slot with the same task, variant and replication; None when the new run has none."""
        return self.find_ids(row.ids)

    def find_ids(self, ids: Ids) -> int | None:
        """The same for the ids of any record."""
        task, variant = self._tasks.get(ids.task_id), self._variants.get(ids.variant_id)
        if task is None or variant is None or ids.repl_idx >= self.experiment.replications:
            return None
        return self.schedule.index(variant, task, ids.repl_idx)

    def objection(self, row: TrialRow, idx: int, invalidated: frozenset[str]) -> str | None:
        """Why a trial can't stand for slot `idx`; None when it can."""
        task, variant = self.digests(row, idx)
        if not self._is_same(*task):
            return "the task or its grader changed"
        if not self._is_same(*variant):
            return (
                "the variant changed" if not self._is_oracle(idx) else "the variant or the solution changed"
            )
        if row.ids.trial_id in invalidated:
            return "invalidated"
        if row.outcome == "cancelled":
            return "not finished before"
        if row.outcome == "graded" and not self.experiment.judges_changed_systems and _was_misjudged(row):
            return "judged in a system that its agent had changed"
        return None if row.outcome == "graded" else f"failed ({row.cause})"

    def can_grade_again(self, row: TrialRow, idx: int, source: ReuseSource, problems: Obstacles) -> bool:
        """Whether an agent's work still answers what slot `idx` asks, so that only its judgement is owed."""
        slot = self.schedule.slot(idx)
        return (
            row.ids.trial_id not in source.invalidated
            and not was_spoilt(row)
            and row.variant_digest == self.tried(slot)
            and is_regradable(self.experiment, slot)
            and (
                row.task_digest == self.experiment.tasks[slot.task_idx].digest
                or problems.is_same(row.ids.task_id, self.experiment, slot)
            )
        )

    def is_in_image(self, idx: int) -> bool:
        """Whether agents of slot `idx` work in a folder of their image."""
        return has_work_in_image(self.experiment, self.schedule.slot(idx))

    def digests(self, row: TrialRow, idx: int) -> tuple[tuple[str, str], tuple[str, str]]:
        """The digests of task and variant that a trial has, each with the one that slot `idx` has."""
        slot = self.schedule.slot(idx)
        task = self.experiment.tasks[slot.task_idx]
        return (row.task_digest, task.digest), (row.variant_digest, self.tried(slot))

    def tried(self, slot: Slot) -> str:
        """The digest of what a slot's variant tries on its task."""
        return digest_tried(self.experiment.variants[slot.variant_idx], self.experiment.tasks[slot.task_idx])

    def _is_oracle(self, idx: int) -> bool:
        return self.experiment.variants[self.schedule.slot(idx).variant_idx].agent.runs_solution

    def _is_same(self, before: str, now: str) -> bool:
        return before == now or (self.vouching is not None and self.vouching.covers(before, now))


def _was_misjudged(row: TrialRow) -> bool:
    """Whether a grader judged where the agent may have replaced what it uses."""
    return "system_changed" in row.flags and "not_graded" not in row.flags and row.barrier != FRESH


def open_sources(runs: Iterable[RunPaths]) -> list[ReuseSource]:
    """Look at runs as sources, in the given order: the newest first."""
    sources = [_open_source(paths) for paths in runs]
    trials = frozenset[str]().union(*(source.invalidated for source in sources))
    return _spread_marks(sources, trials) if trials else sources


def _open_source(paths: RunPaths) -> ReuseSource:
    try:
        replay = read_overrides(read_run(paths).overrides).replay
    except StoreError as error:
        return ReuseSource(paths=paths, invalidated=frozenset(), loss=None, damage=error)
    marked = frozenset(mark.trial_id for mark in read_invalidations(paths))
    return ReuseSource(paths=paths, invalidated=marked, loss=find_loss(paths), replay=replay)


def _spread_marks(sources: Sequence[ReuseSource], trials: frozenset[str]) -> list[ReuseSource]:
    """Let a mark on a result hold in every run that has this very result."""
    results = [_find_results(source, trials) for source in sources]
    withdrawn = {
        (trial, found[trial])
        for source, found in zip(sources, results, strict=True)
        for trial in source.invalidated & found.keys()
    }
    return [
        replace(source, invalidated=source.invalidated | {trial for trial, _ in withdrawn & found.items()})
        for source, found in zip(sources, results, strict=True)
    ]


def _find_results(source: ReuseSource, trials: frozenset[str]) -> dict[str, tuple[str, ...]]:
    """When the attempts of each of these trials ended: that stays with a result when it is taken over."""
    try:
        with survey(source.paths) as seen:
            return {
                trial.ids.trial_id: tuple(attempt.ended_at for attempt in timing.attempts)
                for trial, timing in seen.finished()
                if trial.ids.trial_id in trials
            }
    except StoreError:
        return {}  # whoever takes results from it finds out, and takes none


def plan_reuse(experiment: Experiment, sources: Sequence[ReuseSource], *, edited: bool = False) -> ReusePlan:
    """Decide for every slot of a new run; `sources` the newest first. `edited`: edits are vouched for."""
    vouching = Vouching(experiment, [source.paths for source in sources]) if edited else None
    finder = SlotFinder(experiment, vouching)
    plan = ReusePlan(sources=sources, taken=array("L", bytes(_ITEM * len(finder.schedule))))
    objections: dict[int, str] = {}
    for number, source in enumerate(sources):
        try:
            _take_from(source, number + 1, plan, finder, objections)
        except StoreError as error:
            plan.unusable[number] = error
            plan.give_back(number + 1)
            if vouching is not None:
                vouching.give_back(number + 1)
    plan.vouched = vouching.conclude() if vouching is not None else None
    _explain(plan, objections, finder)
    return plan


def _take_from(
    source: ReuseSource, mark: int, plan: ReusePlan, finder: SlotFinder, objections: dict[int, str]
) -> None:
    problems = Obstacles(source.paths)
    if source.damage is not None:
        raise source.damage
    for row in iter_trials(source.paths):
        idx = finder.find(row)
        if idx is None or plan.is_reused(idx):
            continue
        objection = finder.objection(row, idx, source.invalidated)
        if objection is None and source.replay not in (None, finder.experiment.policy.replay):
            objection = "answered from a recording"
        if objection is None:
            plan.taken[idx] = mark
            plan.again.pop(idx, None)
            if finder.vouching is not None:
                finder.vouching.take(mark, *finder.digests(row, idx))
            objections.pop(idx, None)
            continue
        objections.setdefault(idx, objection)
        if was_unfit(row):
            plan.unfit.add(idx)
        work = None
        if idx not in plan.unfit:
            work = find_work(source.paths, mark - 1, row, in_image=finder.is_in_image(idx))
        if work is not None and finder.can_grade_again(row, idx, source, problems):
            plan.again.setdefault(idx, work)


def _explain(plan: ReusePlan, objections: dict[int, str], finder: SlotFinder) -> None:
    for idx in _owed(plan):
        reason = objections.get(idx, "not finished before")
        if idx in plan.again:
            reason = f"{reason}; the work was kept and is graded again"
        plan.reasons[reason] += 1
        named = plan.examples.setdefault(reason, [])
        if len(named) < EXAMPLES:
            slot = finder.schedule.slot(idx)
            task = finder.experiment.tasks[slot.task_idx].id
            variant = finder.experiment.variants[slot.variant_idx].id
            # As `lab show RUN TRIAL` takes it: the id without its mark.
            named.append(make_trial_id(variant, task, slot.repl_idx).rpartition("-")[0])


def _owed(plan: ReusePlan) -> Iterator[int]:
    return (idx for idx, number in enumerate(plan.taken) if number == 0)
