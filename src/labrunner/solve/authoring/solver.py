"""Solvers: steps from a sample to an answer. What `@solver` makes, and how a step is taken."""

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import wraps
from typing import Any, Literal, ParamSpec, Protocol, TypeAlias, overload

from labrunner.solve.values.description import bind_arguments, describe
from labrunner.solve.values.state import TaskState

P = ParamSpec("P")
ToolCalls: TypeAlias = Literal["loop", "single", "none"]


class Generate(Protocol):
    """Asks the trial's model, with the tools of the state."""

    async def __call__(
        self,
        state: TaskState,
        tool_calls: ToolCalls = "loop",
        **settings: Any,  # noqa: ANN401 - fields of GenerateConfig
    ) -> TaskState:
        """Ask; with `loop`, run the tools that the model asks for until it asks for none."""
        ...


Solver: TypeAlias = Callable[[TaskState, Generate], Awaitable[TaskState]]
"""What a solver factory returns; one that needs no model may take the state alone."""


@dataclass(frozen=True, slots=True)
class Step:
    """A solver with its name and what it was made with. Called like any solver."""

    name: str
    call: Callable[..., Any]  # takes (state, generate), (state), may be async
    arguments: dict[str, Any] = field(default_factory=dict)  # plain JSON, for the record
    takes_generate: bool = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Look at the function once, not once a sample."""
        object.__setattr__(self, "takes_generate", _takes_generate(self.call))

    async def __call__(self, state: TaskState, generate: Generate) -> TaskState:
        """Take the step."""
        given = (state, generate) if self.takes_generate else (state,)
        result = await call_any(self.call, *given)
        if not isinstance(result, TaskState):
            raise TypeError(f"solver {self.name} returned {type(result).__name__}, expected its TaskState")
        return result

    def describe(self) -> object:
        """Name and arguments."""
        return {"name": self.name, "arguments": self.arguments}


@overload
def solver(name: Callable[P, Any]) -> Callable[P, Step]: ...
@overload
def solver(name: str | None = None) -> Callable[[Callable[P, Any]], Callable[P, Step]]: ...
def solver(name: Any = None) -> Any:
    """Make a function that returns a solver into one that a run can record."""

    def decorate(make: Callable[P, Any]) -> Callable[P, Step]:
        called = name if isinstance(name, str) else make.__name__

        @wraps(make)
        def made(*args: P.args, **kwargs: P.kwargs) -> Step:
            arguments = describe(bind_arguments(make, args, kwargs))
            solve = make(*args, **kwargs)
            if not callable(solve):
                raise TypeError(
                    f"@solver {called} must return a function of the state, found {type(solve).__name__}"
                )
            return Step(called, solve, arguments)

        return made

    return decorate(name) if callable(name) else decorate


def as_step(given: Callable[..., Any]) -> Step:
    """Any solver, or plain function of the state, as a step."""
    if isinstance(given, Step):
        return given
    if not callable(given):
        raise TypeError(f"a solver is a function of the state, found {type(given).__name__}")
    return Step(getattr(given, "__name__", type(given).__name__), given)


def as_steps(given: Callable[..., Any] | Sequence[Callable[..., Any]] | None) -> tuple[Step, ...]:
    """What a task's `solver` holds, as steps in order."""
    if given is None:
        return ()
    return tuple(map(as_step, given)) if isinstance(given, Sequence) else (as_step(given),)


async def run_steps(steps: Sequence[Step], state: TaskState, generate: Generate) -> TaskState:
    """Take steps in order, until one says that the sample is completed."""
    for step in steps:
        state = await step(state, generate)
        if state.completed:
            break
    return state


async def call_any(call: Callable[..., Any], *args: object) -> Any:  # noqa: ANN401 - the author's own
    """Call an author's function: async ones are awaited, plain ones run in a thread, since they may block."""
    if is_async(call):
        return await call(*args)
    result = await asyncio.to_thread(call, *args)
    return await result if inspect.isawaitable(result) else result


def is_async(call: Callable[..., Any]) -> bool:
    """Whether calling gives something to be awaited."""
    return inspect.iscoroutinefunction(call) or inspect.iscoroutinefunction(type(call).__call__)


def _takes_generate(call: Callable[..., Any]) -> bool:
    parameters = inspect.signature(call).parameters.values()
    positional = [
        each for each in parameters if each.kind in {each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD}
    ]
    return len(positional) > 1 or any(each.kind is each.VAR_POSITIONAL for each in parameters)
