"""Scorers: what judges an attempt, behind the barrier. What `@scorer` makes, and what a `Task` accepts."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import wraps
from typing import Any, ParamSpec, TypeAlias

from labrunner.solve.description import bind_arguments, describe
from labrunner.solve.metrics import accuracy, stderr
from labrunner.solve.sample import Target
from labrunner.solve.score import Metric, Score
from labrunner.solve.solver import call_any
from labrunner.solve.state import TaskState

P = ParamSpec("P")
Scorer: TypeAlias = Callable[[TaskState, Target], Awaitable[Score]]


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

    async def __call__(self, state: TaskState, target: Target) -> Score:
        """Judge."""
        result = await call_any(self.call, state, target)
        if not isinstance(result, Score):
            raise TypeError(f"scorer {self.name} returned {type(result).__name__}, expected a Score")
        return result

    def describe(self) -> object:
        """Name, arguments and metrics."""
        return {"name": self.name, "arguments": self.arguments, "metrics": describe(self.metrics)}


def scorer(
    metrics: Sequence[Metric] | None = None, name: str | None = None
) -> Callable[[Callable[P, Any]], Callable[P, Judge]]:
    """Make a function that returns a scorer into one that a run can record: `@scorer(metrics=[...])`."""
    if metrics is not None and callable(metrics):
        raise TypeError("write @scorer(metrics=[accuracy(), stderr()]), with brackets")
    chosen = tuple(metrics) if metrics is not None else default_metrics()

    def decorate(make: Callable[P, Any]) -> Callable[P, Judge]:
        @wraps(make)
        def made(*args: P.args, **kwargs: P.kwargs) -> Judge:
            arguments = describe(bind_arguments(make, args, kwargs))
            called, score = name or make.__name__, make(*args, **kwargs)
            if not callable(score):
                told = f"must return a function of state and target, found {type(score).__name__}"
                raise TypeError(f"@scorer {called} {told}")
            return Judge(called, score, chosen, arguments)

        return made

    return decorate


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
        named.append(Judge(called, judge.call, judge.metrics, judge.arguments))
    return tuple(named)
