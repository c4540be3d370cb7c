"""Which trials of a run are graded again: tasks, variants, single trials.

Rule: an experiment is a grid, so a single trial brings its row and column along; what was not asked for in
them is missing data, with its reason, and costs no grading.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Final

from labrunner.errors import InputError
from labrunner.experiment.authoring.problems import Problems
from labrunner.experiment.options.table import flag
from labrunner.experiment.resolved import Experiment
from labrunner.experiment.resolving.selection import (
    FilterNames,
    TaskFilter,
    matches,
    select_tasks,
    select_variants,
)
from labrunner.records.cause import Cause
from labrunner.records.completion import Failed
from labrunner.records.encoding.ids import make_trial_id

NOT_CHOSEN: Final = Failed(
    cause=Cause.SETUP,
    reason="not_chosen",
    message=f"it was not among the trials that were to be graded again ({flag('trial')})",
)
_NAMES: Final = FilterNames(include=flag("sample_id"), exclude=flag("sample_id"), tags=flag("tag"))


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialChoice:
    """What was asked for; nothing means all."""

    task_ids: tuple[str, ...] = ()
    variants: tuple[str, ...] = ()
    trials: tuple[str, ...] = ()
    """Ids of trials, parts of them, or patterns."""

    def takes(self, trial_id: str) -> bool:
        """Whether a trial of the chosen grid was asked for itself."""
        return not self.trials or any(_is_meant(trial_id, pattern) for pattern in self.trials)


def choose(experiment: Experiment, choice: TrialChoice) -> Experiment:
    """The part of an experiment that is asked for. Raises InputError where a word fits nothing."""
    problems = Problems()
    tasks = select_tasks(experiment.tasks, TaskFilter(include=choice.task_ids), _NAMES, problems)
    variants = select_variants(experiment.variants, choice.variants, flag("variant"), problems)
    problems.stop_if_any()
    chosen = replace(experiment, tasks=tuple(tasks), variants=tuple(variants))
    if not choice.trials:
        return chosen
    known = {trial_id: (task_id, variant_id) for trial_id, task_id, variant_id in _trials(chosen)}
    for pattern in choice.trials:
        if not any(_is_meant(trial_id, pattern) for trial_id in known):
            near = ", ".join(get_close_matches(pattern, known, 3, 0.0))
            raise InputError(flag("trial"), f"no trial's id has or matches {pattern!r}; nearest: {near}")
    taken = [known[trial_id] for trial_id in known if choice.takes(trial_id)]
    task_ids, variant_ids = {task_id for task_id, _ in taken}, {variant_id for _, variant_id in taken}
    return replace(
        chosen,
        tasks=tuple(task for task in chosen.tasks if task.id in task_ids),
        variants=tuple(variant for variant in chosen.variants if variant.id in variant_ids),
    )


def _trials(experiment: Experiment) -> Iterator[tuple[str, str, str]]:
    for task in experiment.tasks:
        for variant in experiment.variants:
            for repl_idx in range(experiment.replications):
                yield make_trial_id(variant.id, task.id, repl_idx), task.id, variant.id


def _is_meant(trial_id: str, pattern: str) -> bool:
    return pattern in trial_id or matches(trial_id, pattern)
