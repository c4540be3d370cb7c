"""Tasks as Python authors write them: `Task`, and `@task` functions that a run can call again."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import wraps
from pathlib import Path
from typing import Any, Final, ParamSpec, TypeAlias, overload

from labrunner.errors import InputError
from labrunner.solve.authoring.command import CommandGrader, CommandSolver
from labrunner.solve.authoring.dataset import MemoryDataset
from labrunner.solve.models.asking import Model
from labrunner.solve.scoring.metrics import Epochs
from labrunner.solve.values.config import NO_SETTINGS, GenerateConfig
from labrunner.solve.values.description import bind_arguments, is_plain
from labrunner.solve.values.meter import Limits
from labrunner.solve.values.sample import Sample
from labrunner.solve.values.task_folder import inside

P = ParamSpec("P")
Solving: TypeAlias = Callable[..., Any] | CommandSolver | Sequence[Callable[..., Any]]
Scoring: TypeAlias = Callable[..., Any] | CommandGrader | Sequence[Callable[..., Any] | CommandGrader]
Names: TypeAlias = str | Sequence[str]
SandboxChoice: TypeAlias = str | tuple[str, str] | Mapping[str, Any]  # fields of an experiment file's sandbox


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskOrigin:
    """What makes a task again: its function, and what that was called with."""

    name: str
    file: str | None
    """Where the `@task` function stands; None where no file holds it."""
    arguments: Mapping[str, Any]  # plain JSON where it can be given again
    is_repeatable: bool
    """Whether calling it again is possible at all."""
    module: str = ""
    """What the function's module is called in this process."""


@dataclass(slots=True, kw_only=True)
class Task:
    """A dataset with what solves and scores it."""

    dataset: MemoryDataset | Sequence[Sample] = field(default_factory=list, kw_only=False)
    solver: Solving | Names | None = None
    """Steps from a sample to an answer, or names of them; None asks the model once."""
    scorer: Scoring | Names | None = None
    """What judges an answer, or names of it."""
    setup: Callable[..., Any] | Sequence[Callable[..., Any]] | str | None = None
    """Solvers that come first, or a shell script that is run in the sandbox before them."""
    sandbox: SandboxChoice | None = None
    """`docker`, `bubblewrap` or `process`, maybe with a file or image; or fields as in an experiment file."""
    on_system_change: str | None = None
    """What follows when solvers changed files of the container's image: as in an experiment file."""
    epochs: int | Epochs | None = None
    fail_on_error: bool | float | None = None
    continue_on_fail: bool | None = None
    retry_on_error: int | None = None
    time_limit: float | None = None
    working_limit: float | None = None
    message_limit: int | None = None
    token_limit: int | None = None
    cost_limit: float | None = None
    model: str | Model | None = None
    config: GenerateConfig = NO_SETTINGS
    name: str | None = None
    metadata: Mapping[str, Any] | None = None  # any JSON: the author's own
    tags: Sequence[str] = ()
    version: int | str = 0
    origin: TaskOrigin | None = None
    """Set by `@task`."""

    @property
    def limits(self) -> Limits:
        """What an attempt may take."""
        return Limits(
            time_s=self.time_limit,
            working_s=self.working_limit,
            messages=self.message_limit,
            tokens=self.token_limit,
            cost_usd=self.cost_limit,
        )

    @property
    def title(self) -> str:
        """What the task is called."""
        return self.name or (self.origin.name if self.origin else "task")


TASK_MARK: Final = "__labrunner_task__"


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskFunction:
    """What `@task` knows about the function that it stands on."""

    name: str
    file: str | None
    make: Callable[..., Any]
    line: int

    def call(self, *args: object, **kwargs: object) -> Task:
        """Make the task, with relative paths from the function's file."""
        folder = Path(self.file).parent if self.file is not None else None
        arguments = self._bind(args, kwargs)
        with inside(folder):
            made = self.make(*args, **kwargs)
        if not isinstance(made, Task):
            raise InputError(self.where, f"@task {self.name} must return a Task, found {type(made).__name__}")
        made.origin = TaskOrigin(
            name=self.name,
            file=self.file,
            arguments=arguments,
            is_repeatable=self.file is not None and is_plain(arguments),
            module=self.make.__module__,
        )
        return made

    @property
    def where(self) -> str:
        """File and line, for messages."""
        return f"{self.file or 'python'}:{self.line}"

    def _bind(self, args: Sequence[object], kwargs: Mapping[str, object]) -> dict[str, Any]:
        try:
            return bind_arguments(self.make, args, kwargs)
        except TypeError as error:
            known = ", ".join(inspect.signature(self.make).parameters) or "none"
            raise InputError(self.where, f"@task {self.name}: {error}; its parameters: {known}") from error


@overload
def task(name: Callable[P, Task]) -> Callable[P, Task]: ...
@overload
def task(name: str | None = None) -> Callable[[Callable[P, Task]], Callable[P, Task]]: ...
def task(name: Any = None) -> Any:
    """Mark a function that makes a task, so that `lab eval` finds it and a retry can call it again."""

    def decorate(make: Callable[P, Task]) -> Callable[P, Task]:
        file = inspect.getsourcefile(make)
        known = TaskFunction(
            name=name if isinstance(name, str) else make.__name__,
            file=str(Path(file).resolve()) if file is not None and Path(file).is_file() else None,
            make=make,
            line=make.__code__.co_firstlineno,
        )

        @wraps(make)
        def made(*args: P.args, **kwargs: P.kwargs) -> Task:
            return known.call(*args, **kwargs)

        setattr(made, TASK_MARK, known)
        return made

    return decorate(name) if callable(name) else decorate


def task_function(value: object) -> TaskFunction | None:
    """What `@task` knows about a function; None for anything else."""
    found = getattr(value, TASK_MARK, None)
    return found if isinstance(found, TaskFunction) else None
