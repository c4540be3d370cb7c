"""Scorers: what judges an attempt, behind the barrier. What `@scorer` makes, and what a `Task` accepts."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import wraps
from typing import Any, ParamSpec, TypeAlias

from labrunner.solve.authoring.solver import call_any
from labrunner.solve.scoring.metrics import accuracy, stderr
from labrunner.solve.values.description import bind_arguments, describe
from labrunner.solve.values.sample import Target
from labrunner.solve.values.score import Metric, Score
from labrunner.solve.values.state import TaskState

P = ParamSpec("P")
Scorer: TypeAlias = Callable[[TaskState, Target], Awaitable[Score]]
MetricsOfKeys: TypeAlias = Mapping[str, Sequence[Metric]]
"""Metrics by the name, or a pattern of names, in a score that is a map of values."""


def default_metrics() -> tuple[Metric, ...]:
    """What is computed where a scorer names nothing."""
    return (accuracy(), stderr())


@dataclass(frozen=True, slots=True)
class Judge:
    """A scorer with its name, metrics and what it was made with. Called like any scorer."""

    name: str
    call: Callable[..., Any]  # takes (state, target), may be async
    metrics: tuple[Metric, ...] = field(default_factory=default_metrics)
    arguments: dict[str, Any] = field(default_factory=dict)  # plain JSON, for the record
    metrics_of_keys: MetricsOfKeys = field(default_factory=dict)
    bounds: tuple[float, float] | None = None
    """Between which its scores lie, where it knows."""

    async def __call__(self, state: TaskState, target: Target) -> Score:
        """Judge."""
        result = await call_any(self.call, state, target)
        if not isinstance(result, Score):
            raise TypeError(f"scorer {self.name} returned {type(result).__name__}, expected a Score")
        return result

    def describe(self) -> object:
        """Name, arguments and metrics."""
        told = {"name": self.name, "arguments": self.arguments, "metrics": describe(self.metrics)}
        return told | {"metrics_of_keys": describe(self.metrics_of_keys)} if self.metrics_of_keys else told


def scorer(
    metrics: Sequence[Metric | MetricsOfKeys] | MetricsOfKeys | None = None, name: str | None = None
) -> Callable[[Callable[P, Any]], Callable[P, Judge]]:
    """Make a function that returns a scorer into one that a run can record: `@scorer(metrics=[...])`.

    Where scores are maps, `{"part": [mean()], "*": [...]}` gives every value its metrics.
    """
    if metrics is not None and callable(metrics):
        raise TypeError("write @scorer(metrics=[accuracy(), stderr()]), with brackets")
    chosen, of_keys = _sort(default_metrics() if metrics is None else metrics)

    def decorate(make: Callable[P, Any]) -> Callable[P, Judge]:
        @wraps(make)
        def made(*args: P.args, **kwargs: P.kwargs) -> Judge:
            arguments = describe(bind_arguments(make, args, kwargs))
            called, score = name or make.__name__, make(*args, **kwargs)
            if not callable(score):
                told = f"must return a function of state and target, found {type(score).__name__}"
                raise TypeError(f"@scorer {called} {told}")
            if isinstance(score, Judge):  # it says more of itself: see `within`
                return replace(
                    score, name=called, metrics=chosen, arguments=arguments, metrics_of_keys=of_keys
                )
            return Judge(called, score, chosen, arguments, of_keys)

        return made

    return decorate


def within(low: float, high: float, score: Callable[..., Any]) -> Judge:
    """A scorer that knows between which bounds its scores lie: intervals and missing scores end there."""
    return Judge("score", score, bounds=(low, high))


def _sort(
    metrics: Sequence[Metric | MetricsOfKeys] | MetricsOfKeys,
) -> tuple[tuple[Metric, ...], MetricsOfKeys]:
    """Tell metrics of whole scores from those of a map's values."""
    plain: list[Metric] = []
    of_keys: dict[str, tuple[Metric, ...]] = {}
    for each in [metrics] if isinstance(metrics, Mapping) else metrics:
        if isinstance(each, Mapping):
            of_keys |= {key: tuple(map(_check, given)) for key, given in each.items()}
        else:
            plain.append(_check(each))
    return tuple(plain), of_keys


def _check(given: object) -> Metric:
    if isinstance(given, Metric):
        return given
    told = getattr(given, "__name__", type(given).__name__)
    raise TypeError(f"a metric is what accuracy(), or a function with @metric above it, gives; found {told}")


def as_judge(given: Callable[..., Any]) -> Judge:
    """Any scorer, or plain function of state and target, as a judge."""
    if isinstance(given, Judge):
        return given
    if not callable(given):
        raise TypeError(f"a scorer is a function of state and target, found {type(given).__name__}")
    return Judge(getattr(given, "__name__", type(given).__name__), given)


def as_judges(given: Callable[..., Any] | Sequence[Callable[..., Any]] | None) -> tuple[Judge, ...]:
    """What a task's `scorer` holds, each under a name of its own."""
    if given is None:
        return ()
    judges = [as_judge(each) for each in given] if isinstance(given, Sequence) else [as_judge(given)]
    names: dict[str, int] = {}
    named: list[Judge] = []
    for judge in judges:
        count = names.get(judge.name, 0)
        names[judge.name] = count + 1
        called = judge.name if count == 0 else f"{judge.name}{count}"
        named.append(replace(judge, name=called))
    return tuple(named)
