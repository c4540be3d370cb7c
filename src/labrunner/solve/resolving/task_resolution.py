"""From a `Task` to the same frozen `Experiment` that a file gives, and to the live code that carries it out.

The task is written out as an experiment file would be and resolved by the same rules, so that options,
checks and messages are the same; what only Python has is put beside it as the variant's `Program`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from labrunner.errors import InputError
from labrunner.experiment.addresses import hide_credentials
from labrunner.experiment.authoring.document import Document, Place
from labrunner.experiment.digests import digest_experiment, digest_variant
from labrunner.experiment.options import kinds
from labrunner.experiment.options.overrides import Overrides
from labrunner.experiment.options.table import flag
from labrunner.experiment.resolved import NO_SANDBOX, DeclaredMetric, Experiment, Folder, Program, Variant
from labrunner.experiment.resolving.overlay import apply_overrides
from labrunner.experiment.resolving.resolution import resolve
from labrunner.experiment.substitution import escape
from labrunner.policy.capacity import CONNECTIONS
from labrunner.records.encoding import canonical
from labrunner.solve.authoring.command import CommandGrader, CommandSolver, split_scorers
from labrunner.solve.authoring.names import SCORERS, SOLVERS, make_named, replace_names
from labrunner.solve.authoring.scorer import Judge
from labrunner.solve.authoring.solver import Step, as_steps
from labrunner.solve.library.solvers import generate
from labrunner.solve.models.asking import Model, get_model
from labrunner.solve.resolving.closure import CodePart, digest_modules, find_part, read_part
from labrunner.solve.resolving.compose import Surroundings
from labrunner.solve.resolving.sample_rows import make_rows, record_metadata, setup_section
from labrunner.solve.resolving.sandboxes import find_surroundings
from labrunner.solve.resolving.task import Task, TaskOrigin
from labrunner.solve.scoring.metrics import Epochs
from labrunner.solve.values.config import GenerateConfig, make_config
from labrunner.solve.values.description import describe, is_plain
from labrunner.solve.values.meter import Limits
from labrunner.solve.values.task_folder import inside

_ASKING: Final = frozenset({"generate", "multiple_choice", "react"})
_FEWEST_AT_ONCE: Final = 16
NOT_A_COMMAND: Final = "python"
"""Stands where an experiment file has a command, while a task is resolved."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveTask:
    """A task's own code, ready to be run."""

    steps: tuple[Step, ...]
    judges: tuple[Judge, ...]
    command: CommandSolver | None
    grader: CommandGrader | None
    model: Model | None
    limits: Limits
    folder: Path
    """Where its relative paths start from."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolved:
    """An experiment with the code that carries it out."""

    experiment: Experiment
    live: LiveTask


def resolve_task(task: Task, overrides: Overrides, model: Model | None = None) -> Resolved:
    """Resolve a task, with the options of a run laid over it. Raises InputError, InputErrors."""
    folder = _folder(task)
    with inside(folder):
        task = _with_named(task, overrides)
        live = _live(task, overrides, model, folder)
        _refuse_without_model(task, live)
        document = _document(task, live, overrides, folder)
        plain = replace(overrides, sandbox=None)
        source = Path(_where(task)) if task.origin and task.origin.file else folder / "task"
        experiment = resolve(apply_overrides(document, plain), plain, str(source.resolve()))
    return Resolved(experiment=_complete(experiment, task, live, overrides), live=live)


def make_live(task: Task, overrides: Overrides) -> tuple[LiveTask, Program]:
    """The code of a task that was resolved elsewhere, and what it is made of here. Raises InputError."""
    folder = _folder(task)
    with inside(folder):
        task = _with_named(task, overrides)
        live = _live(task, overrides, None, folder)
        return live, _program(task, live, overrides)


def _with_named(task: Task, overrides: Overrides) -> Task:
    """Put in the solver and the scorer that options name, and what names in the task stand for."""
    solver = replace_names(SOLVERS, task.solver, f"{_where(task)}: solver")
    if overrides.solver is not None:
        solver = make_named(SOLVERS, overrides.solver, overrides.solver_arguments, flag("solver"))
    elif overrides.solver_arguments:
        raise InputError(flag("solver_args"), f"gives arguments of a solver; name it with {flag('solver')}")
    scorer = replace_names(SCORERS, task.scorer, f"{_where(task)}: scorer")
    if overrides.scorer is not None:
        scorer = make_named(SCORERS, overrides.scorer, {}, flag("scorer"))
    return replace(task, solver=solver, scorer=scorer)


def _live(task: Task, overrides: Overrides, model: Model | None, folder: Path) -> LiveTask:
    scorer: Any = task.scorer  # names have been replaced
    judges, grader = split_scorers(scorer)
    if not judges and grader is None:
        raise InputError(
            _where(task), f"task {task.title} has no scorer; a trial without a score tells nothing"
        )
    command, steps = _solving(task)
    if task.setup is not None and not isinstance(task.setup, str):
        if command is not None:
            raise InputError(
                _where(task), "setup in Python needs a solver in Python; give the setup as a script"
            )
        steps = (*as_steps(task.setup), *steps)
    return LiveTask(
        steps=steps,
        judges=judges,
        command=command,
        grader=grader,
        model=_model(task, overrides, model),
        limits=task.limits.merge(Limits.of(overrides.limits)),
        folder=folder,
    )


def _solving(task: Task) -> tuple[CommandSolver | None, tuple[Step, ...]]:
    solver: Any = task.solver  # names have been replaced
    if isinstance(solver, CommandSolver):
        return solver, ()
    if isinstance(solver, Sequence) and any(isinstance(each, CommandSolver) for each in solver):
        raise InputError(_where(task), "a command is a solver of its own; it can't stand among other solvers")
    return None, as_steps(solver) or (generate(),)


def _model(task: Task, overrides: Overrides, given: Model | None) -> Model | None:
    asked = given or overrides.model or task.model
    if asked is None:
        return None
    config = task.config.merge(make_config(overrides.generate, "-G"))
    model = get_model(asked)
    if model.base_url is None and model.backend is None:
        model = replace(model, base_url=overrides.model_base_url)
    return replace(model, config=model.config.merge(config))


def _refuse_without_model(task: Task, live: LiveTask) -> None:
    if live.model is None and any(step.name in _ASKING for step in live.steps):
        raise InputError(
            "model",
            f"task {task.title} asks a model; name one, such as {flag('model')} openai/gpt-5-mini, "
            f"or {flag('model')} mock/echo to try it without a provider",
        )


def _document(task: Task, live: LiveTask, overrides: Overrides, folder: Path) -> Document:
    epochs, around = _epochs(task, overrides), find_surroundings(overrides.sandbox, task.sandbox, folder)
    command = live.command.section if live.command else {"command": [NOT_A_COMMAND]}
    data: dict[str, Any] = {
        "schema": 1,
        "name": task.title,
        "tags": list(task.tags),
        "tasks": [_put_into(row, around) for row in make_rows(task.dataset, _where(task))],
        "variants": [{"id": live.model.name if live.model else "baseline"}],
        "agent": {**around.agent, **command},
        "grader": dict(live.grader.section) if live.grader else {"command": [NOT_A_COMMAND]},
        "sandbox": dict(around.sandbox),
        "on_system_change": task.on_system_change,
        "replications": epochs.epochs,
        "metadata": _metadata(task),
        "fail_on_error": task.fail_on_error,
        "continue_on_fail": task.continue_on_fail,
        "retry_on_error": task.retry_on_error,
    }
    if isinstance(task.setup, str):
        data["setup"] = _on_network(setup_section(task.setup), around)
    data = {name: value for name, value in data.items() if value is not None}
    return Document(data=data, places={(): Place(file=_where(task), line=None, folder=folder)})


def _put_into(row: dict[str, Any], around: Surroundings) -> dict[str, Any]:
    """Give a sample's row what its surroundings have for every phase."""
    if around.env:
        row["env"] = {name: escape(value) for name, value in around.env.items()}
    if "setup" in row:
        row["setup"] = _on_network(row["setup"], around)
    return row


def _on_network(setup: dict[str, Any], around: Surroundings) -> dict[str, Any]:
    return {**setup, "network": around.agent["network"]} if "network" in around.agent else setup


def _epochs(task: Task, overrides: Overrides) -> Epochs:
    if overrides.reducers and overrides.replications:
        return Epochs(overrides.replications, list(overrides.reducers))
    if task.epochs is None or isinstance(task.epochs, Epochs):
        return task.epochs or Epochs(1)
    kinds.COUNT.check(f"{_where(task)}: epochs", task.epochs)
    return Epochs(task.epochs)


def _metadata(task: Task) -> dict[str, Any]:
    kept = record_metadata(task.metadata, f"task {task.title}", _where(task))
    return {**kept, **({"version": task.version} if task.version else {})}


def _complete(experiment: Experiment, task: Task, live: LiveTask, overrides: Overrides) -> Experiment:
    """Put in what only Python has, and take out what only stood in for it."""
    has_sandbox = task.sandbox is not None or overrides.sandbox is not None
    if not has_sandbox and (live.command is not None or live.grader is not None):
        raise InputError(_where(task), "a command needs a sandbox; give the task one, such as 'bubblewrap'")
    variant = experiment.variants[0]
    agent = variant.agent if live.command else replace(variant.agent, command=())
    sandbox = (
        variant.sandbox if has_sandbox else replace(variant.sandbox, kind=NO_SANDBOX, cpus=0.0, memory_mb=0)
    )
    variant = replace(variant, agent=agent, sandbox=sandbox, program=_program(task, live, overrides))
    variant = replace(variant, digest=digest_variant(variant))
    grader = experiment.tasks[0].grader
    shared = grader if live.grader else replace(grader, command=(), metric=_metric(live.judges))
    tasks = tuple(
        replace(each, grader=shared, digest=canonical.digest(["sample_v1", each.digest, each.metadata]))
        for each in experiment.tasks
    )
    policy = replace(
        experiment.policy,
        max_connections=overrides.max_connections or _config(live).max_connections,
        max_retries=overrides.max_retries,
        request_timeout_s=overrides.request_timeout_s,
        max_concurrency=_concurrency(experiment, live, overrides, has_sandbox=has_sandbox),
    )
    changed = replace(experiment, tasks=tasks, variants=(variant,), policy=policy)
    changed = replace(changed, source=experiment.source if task.origin and task.origin.file else "")
    return replace(changed, digest=digest_experiment(changed))


def _metric(judges: Sequence[Judge]) -> DeclaredMetric | None:
    """What the first scorer, which decides, knows of its scores."""
    if not judges or judges[0].bounds is None:
        return None
    low, high = judges[0].bounds
    return DeclaredMetric(name=judges[0].name, min=low, max=high)


def _concurrency(experiment: Experiment, live: LiveTask, overrides: Overrides, *, has_sandbox: bool) -> Any:  # noqa: ANN401
    """What is asked for; trials that only wait for a model are not bound by this machine."""
    asked = experiment.policy.max_concurrency
    if asked != "auto" or has_sandbox:
        return asked
    connections = overrides.max_connections or _config(live).max_connections or CONNECTIONS
    return max(_FEWEST_AT_ONCE, 2 * connections)


def _config(live: LiveTask) -> GenerateConfig:
    return live.model.config if live.model is not None else GenerateConfig()


def _program(task: Task, live: LiveTask, overrides: Overrides) -> Program:
    origin = task.origin
    epochs = _epochs(task, overrides)
    scorers: Sequence[Judge | CommandGrader] = (*live.judges, *([live.grader] if live.grader else []))
    return Program(
        task=origin.name if origin else task.title,
        file=_source(origin),
        arguments=_plain_arguments(origin.arguments) if origin else {},
        is_repeatable=bool(origin and origin.is_repeatable),
        in_process=live.command is None or bool(live.judges),
        model=live.model.name if live.model else None,
        base_url=hide_credentials(live.model.base_url) if live.model and live.model.base_url else None,
        config=live.model.config.measured() if live.model else {},
        limits=live.limits.given(),
        steps=tuple(describe(step) for step in ([live.command] if live.command else live.steps)),
        scorers=tuple(describe(scorer) for scorer in scorers),
        reducer=",".join(epochs.reducers),
        modules=_modules(origin, live),
    )


def _source(origin: TaskOrigin | None) -> Folder | None:
    if origin is None or origin.file is None:
        return None
    return Folder(path=origin.file, digest=read_part(CodePart(origin.module, Path(origin.file))).digest)


def _modules(origin: TaskOrigin | None, live: LiveTask) -> dict[str, str]:
    """What a task is made of besides its file; without one, what its solvers and scorers stand in."""
    if origin is not None and origin.file is not None:
        return digest_modules(CodePart(origin.module, Path(origin.file)))
    calls = [*(step.call for step in live.steps), *(judge.call for judge in live.judges)]
    parts = {part.name: part for call in calls if (part := find_part(call)) is not None}
    found: dict[str, str] = {}
    for name, part in sorted(parts.items()):
        found |= {name: read_part(part).digest, **digest_modules(part)}
    return found


def _plain_arguments(arguments: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value if is_plain(value) else describe(value) for name, value in arguments.items()}


def _folder(task: Task) -> Path:
    return Path(task.origin.file).parent if task.origin and task.origin.file else Path.cwd()


def _where(task: Task) -> str:
    return task.origin.file if task.origin and task.origin.file else f"task {task.title}"


def variant_of(experiment: Experiment) -> Variant:
    """The one variant of a Python task."""
    return experiment.variants[0]
