"""What a run's scores add up to: one figure per scorer and metric, with intervals. Read in one pass.

A sample's epochs become one number first. Samples that failed are left out, and counted; so are those with
too few graded epochs for what is asked. Invalidated ones are in no figure.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import partial

from labrunner.analysis.inference.interval import Interval, TaskMean, mean_interval
from labrunner.analysis.sums.tally import declared_metric
from labrunner.experiment.resolved import DeclaredMetric, Experiment
from labrunner.solve.scoring import metrics as known
from labrunner.solve.scoring.metrics import find_reducer
from labrunner.solve.values.score import Metric
from labrunner.store.checking.invalidations import read_invalidations
from labrunner.store.layout import RunPaths
from labrunner.store.reading.run_state import iter_finished

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


@dataclass(frozen=True, slots=True)
class _Samples:
    """What is known of samples besides their scores."""

    groups: Mapping[str, str | None]
    bounds: tuple[float, float] | None
    """Ends of the scale that they are scored on."""


def compute_results(
    paths: RunPaths, experiment: Experiment, own: Mapping[str, Sequence[Metric]]
) -> EvalResults:
    """Compute a run's figures; `own` are their metrics where the code of their scorers is at hand."""
    program = experiment.variants[0].program
    reducers = program.reducer.split(",") if program is not None else ["mean"]
    gathered = _gather(paths)
    groups = {task.id: task.group for task in experiment.tasks}
    metrics = {**_recorded_metrics(experiment), **own}
    declared = declared_metric(experiment)
    scores = [
        _score(name, gathered.values[name], reducer, chosen, _Samples(groups, _bounds(declared, name)))
        for name in sorted(gathered.values, key=partial(_rank, experiment))
        if (chosen := _find_metrics(metrics, name)) is not None
        for reducer in reducers
    ]
    return EvalResults(
        total_samples=len(experiment.tasks) * len(experiment.variants) * experiment.replications,
        completed_samples=gathered.graded,
        failed_samples=gathered.failed,
        scores=scores,
    )


def _gather(paths: RunPaths) -> _Gathered:
    gathered = _Gathered()
    invalidated = {mark.trial_id for mark in read_invalidations(paths)}
    for rows in iter_finished(paths):
        if rows.trial_id in invalidated:
            continue
        if not rows.scores:
            gathered.failed += 1
            continue
        gathered.graded += 1
        row = rows.scores[0]
        numbers = {name: value for name, value in row.metrics.items() if isinstance(value, int | float)}
        for name, value in (numbers or {row.primary_metric_name: row.primary_metric_value}).items():
            gathered.values[name][rows.trial.ids.task_id].append(float(value))
    return gathered


def _bounds(declared: DeclaredMetric | None, name: str) -> tuple[float, float] | None:
    if declared is None or declared.name != name or declared.min is None or declared.max is None:
        return None
    return declared.min, declared.max


def _rank(experiment: Experiment, name: str) -> tuple[int, str]:
    """Where a figure stands: with its scorer, in the order of the task."""
    program = experiment.variants[0].program
    scorers = [scorer["name"] for scorer in program.scorers] if program is not None else []
    whose, _, _ = name.partition(".")
    return (scorers.index(whose) if whose in scorers else len(scorers), name)


def name_figures(
    scorer: str, metrics: Sequence[Metric], of_keys: Mapping[str, Sequence[Metric]]
) -> dict[str, Sequence[Metric]]:
    """A scorer's metrics by the names of its figures, or by patterns of them."""
    return {scorer: metrics, **{f"{scorer}.{key}": given for key, given in of_keys.items()}}


def _recorded_metrics(experiment: Experiment) -> dict[str, Sequence[Metric]]:
    """Metrics as the run recorded them; those that the author wrote himself need his code."""
    program = experiment.variants[0].program
    found: dict[str, Sequence[Metric]] = {}
    for scorer in program.scorers if program is not None else ():
        of_keys = {key: _built_in(given) for key, given in scorer.get("metrics_of_keys", {}).items()}
        found |= name_figures(scorer["name"], _built_in(scorer["metrics"]), of_keys)
    return found


def _built_in(described: Sequence[Mapping[str, str]]) -> list[Metric]:
    return [_BUILT_IN[each["name"]]() for each in described if each["name"] in _BUILT_IN]


def _find_metrics(metrics: Mapping[str, Sequence[Metric]], name: str) -> Sequence[Metric] | None:
    """A figure's metrics: its own, or those of a pattern that fits; None for one that is not asked for."""
    patterns = [each for each in metrics if each.startswith(f"{name}.")]
    if name in metrics:
        return metrics[name] if metrics[name] or not patterns else None
    fitting = (each for each in metrics if "." in each and fnmatchcase(name, each))
    return metrics.get(next(fitting, ""), [known.accuracy(), known.stderr()])


def _score(
    name: str,
    values: Mapping[str, list[float]],
    reducer: str,
    metrics: Sequence[Metric],
    samples: _Samples,
) -> EvalScore:
    reduce = find_reducer(reducer)
    reduced = {task: reduce(scores) for task, scores in values.items()}
    means = {task: float(number) for task, number in reduced.items() if number is not None}
    figures = {metric.name: _metric(metric, means, values, samples) for metric in metrics if means}
    return EvalScore(name=name, reducer=reducer, scored_samples=len(means), metrics=figures)


def _metric(
    metric: Metric,
    means: Mapping[str, float],
    values: Mapping[str, list[float]],
    samples: _Samples,
) -> EvalMetric:
    interval = None
    if metric.name in _MEANS:
        tasks = [
            TaskMean(mean=mean, graded=len(values[task]), group=samples.groups.get(task))
            for task, mean in means.items()
        ]
        is_rate = all(value in {0.0, 1.0} for scores in values.values() for value in scores)
        interval = mean_interval(tasks, is_rate=is_rate, bounds=samples.bounds)
    return EvalMetric(name=metric.name, value=float(metric(list(means.values()))), interval=interval)
