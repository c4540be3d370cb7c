"""What a run's scores add up to: one figure per scorer and metric, with intervals. Read in one pass.

A sample's epochs become one number first. Samples that failed are left out, and counted.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from labrunner.analysis.interval import Interval, TaskMean, mean_interval
from labrunner.experiment.model import Experiment
from labrunner.solve import metrics as known
from labrunner.solve.metrics import find_reducer
from labrunner.solve.score import Metric
from labrunner.store.layout import RunPaths
from labrunner.store.reading import iter_finished

_BUILT_IN = {each().name: each for each in (known.accuracy, known.mean, known.std, known.var, known.stderr)}
_MEANS = frozenset({"accuracy", "mean"})


@dataclass(frozen=True, slots=True, kw_only=True)
class EvalMetric:
    """One figure."""

    name: str
    value: float
    interval: Interval | None = None
    """95% interval over samples, for means."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EvalScore:
    """One scorer's figures."""

    name: str
    reducer: str
    scored_samples: int
    metrics: Mapping[str, EvalMetric]


@dataclass(frozen=True, slots=True, kw_only=True)
class EvalResults:
    """A run's figures."""

    total_samples: int
    """Planned, epochs included."""
    completed_samples: int
    """Finished and graded."""
    failed_samples: int
    """Finished without a grade."""
    scores: Sequence[EvalScore]

    @property
    def metrics(self) -> Mapping[str, EvalMetric]:
        """The first scorer's figures."""
        return self.scores[0].metrics if self.scores else {}


@dataclass(slots=True)
class _Gathered:
    """Numbers by scorer and sample."""

    values: dict[str, dict[str, list[float]]] = field(
        default_factory=lambda: defaultdict(partial(defaultdict, list))
    )
    graded: int = 0
    failed: int = 0


def compute_results(
    paths: RunPaths, experiment: Experiment, own: Mapping[str, Sequence[Metric]]
) -> EvalResults:
    """Compute a run's figures; `own` are the scorers' metrics where their code is at hand."""
    program = experiment.variants[0].program
    reducer = program.reducer if program is not None else "mean"
    gathered = _gather(paths)
    groups = {task.id: task.group for task in experiment.tasks}
    scores = [
        _score(name, values, reducer, own.get(name) or _recorded_metrics(experiment, name), groups)
        for name, values in sorted(gathered.values.items(), key=lambda pair: _rank(experiment, pair[0]))
    ]
    return EvalResults(
        total_samples=len(experiment.tasks) * len(experiment.variants) * experiment.replications,
        completed_samples=gathered.graded,
        failed_samples=gathered.failed,
        scores=scores,
    )


def _gather(paths: RunPaths) -> _Gathered:
    gathered = _Gathered()
    for rows in iter_finished(paths):
        if not rows.scores:
            gathered.failed += 1
            continue
        gathered.graded += 1
        row = rows.scores[0]
        numbers = {name: value for name, value in row.metrics.items() if isinstance(value, int | float)}
        for name, value in (numbers or {row.primary_metric_name: row.primary_metric_value}).items():
            gathered.values[name][rows.trial.ids.task_id].append(float(value))
    return gathered


def _rank(experiment: Experiment, name: str) -> tuple[int, str]:
    """Where a figure stands: with its scorer, in the order of the task."""
    program = experiment.variants[0].program
    scorers = [scorer["name"] for scorer in program.scorers] if program is not None else []
    whose, _, _ = name.partition(".")
    return (scorers.index(whose) if whose in scorers else len(scorers), name)


def _recorded_metrics(experiment: Experiment, name: str) -> Sequence[Metric]:
    """A scorer's metrics as the run recorded them; those that the author wrote himself need his code."""
    program = experiment.variants[0].program
    scorers = program.scorers if program is not None else ()
    for scorer in scorers:
        if scorer["name"] == name:
            names = [each["name"] for each in scorer["metrics"]]
            return [_BUILT_IN[each]() for each in names if each in _BUILT_IN]
    return [known.accuracy(), known.stderr()]


def _score(
    name: str,
    values: Mapping[str, list[float]],
    reducer: str,
    metrics: Sequence[Metric],
    groups: Mapping[str, str | None],
) -> EvalScore:
    reduce = find_reducer(reducer)
    means = {task: float(reduce(scores)) for task, scores in values.items()}
    figures = {metric.name: _metric(metric, means, values, groups) for metric in metrics}
    return EvalScore(name=name, reducer=reducer, scored_samples=len(means), metrics=figures)


def _metric(
    metric: Metric,
    means: Mapping[str, float],
    values: Mapping[str, list[float]],
    groups: Mapping[str, str | None],
) -> EvalMetric:
    interval = None
    if metric.name in _MEANS:
        tasks = [
            TaskMean(mean=mean, graded=len(values[task]), group=groups.get(task))
            for task, mean in means.items()
        ]
        is_binary = all(value in {0.0, 1.0} for scores in values.values() for value in scores)
        interval = mean_interval(tasks, is_binary=is_binary)
    return EvalMetric(name=metric.name, value=float(metric(list(means.values()))), interval=interval)
