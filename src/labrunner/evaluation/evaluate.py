"""`eval()` and its kin: runs of Python tasks from Python, by the same runner as the command line.

Every option of a run is a keyword. Each function returns logs, also when a run failed or was interrupted.
"""

import logging
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeAlias, Unpack

from labrunner.errors import ExitCode, InputError
from labrunner.evaluation.eval_logs import find_log
from labrunner.evaluation.eval_options import check_value, is_displayed, read_keywords
from labrunner.evaluation.keywords import EvalOptions, EvalSetOptions, NewEvalOptions
from labrunner.evaluation.request import find_replayed, make_run_options, refuse_one_id
from labrunner.evaluation.to_end import run_to_end
from labrunner.experiment.options.asked import Asked
from labrunner.experiment.options.layers import refuse_python
from labrunner.experiment.options.overrides import Overrides
from labrunner.experiment.options.spelling import listed
from labrunner.experiment.options.table import find_option
from labrunner.experiment.resolved import Experiment
from labrunner.experiment.resolving.hazards import refuse_unheeded_options
from labrunner.experiment.resolving.load import load
from labrunner.runner.again.retrying import (
    RetryPlan,
    carry_out_retry,
    find_readable,
    plan_retry,
    plan_reuse_of,
)
from labrunner.runner.again.sets import SetOptions, run_set
from labrunner.runner.resume.draining import drain
from labrunner.runner.sitting.sitting import Live, RunEnd, Watch
from labrunner.runner.start import RunOptions, run_experiment
from labrunner.solve.logs.logs import EvalLog, EvalLogInfo
from labrunner.solve.models.asking import Model, get_model
from labrunner.solve.origin import PythonTasks
from labrunner.solve.resolving.loading import load_tasks, make_task
from labrunner.solve.resolving.python_target import is_python_target
from labrunner.solve.resolving.task import Task, task_function
from labrunner.store.layout import RunPaths
from labrunner.store.reading.listing import address

Tasks: TypeAlias = (
    "str | Path | Task | Callable[..., Task] | Sequence[str | Path | Task | Callable[..., Task]]"
)
_log: Final = logging.getLogger("labrunner")
Models: TypeAlias = "str | Model | Sequence[str | Model] | None"
Logs: TypeAlias = "str | Path | EvalLog | EvalLogInfo | Sequence[str | Path | EvalLog | EvalLogInfo]"


def eval(tasks: Tasks, model: Models = None, **options: Unpack[NewEvalOptions]) -> list[EvalLog]:
    """Run tasks: a file, an `@task` function, a `Task`, or a list of these. One log per task and model."""
    return run_to_end(eval_async(tasks, model, **options), "eval_async")


async def eval_async(tasks: Tasks, model: Models = None, **options: Unpack[NewEvalOptions]) -> list[EvalLog]:
    """The same in a loop that runs already."""
    call = _Call.of(options, NewEvalOptions)
    reuse = call.own("reuse")
    if call.reuse_edited and reuse is None:
        raise InputError("reuse_edited", "needs `reuse`: which runs to take results from")
    known = PythonTasks()
    logs: list[EvalLog] = []
    for experiment in _resolve(known, tasks, model, call):
        settings = call.options(known, experiment)
        if reuse is None:
            end = await run_experiment(experiment, settings, call.watch)
        else:
            planned = plan_reuse_of(experiment, find_readable(reuse), edited=call.reuse_edited)
            end = await carry_out_retry(planned, settings, call.watch, on_plan=call.tell_plan)
        call.tell_end(end)
        logs.append(_read(known, experiment, end.paths))
        if end.is_interrupted:
            break
    return logs


def eval_retry(
    logs: Logs, model: "str | Model | None" = None, **options: Unpack[EvalOptions]
) -> list[EvalLog]:
    """Run again what failed in a run, and only that: a new run each, which takes over what was good."""
    return run_to_end(eval_retry_async(logs, model, **options), "eval_retry_async")


async def eval_retry_async(
    logs: Logs, model: "str | Model | None" = None, **options: Unpack[EvalOptions]
) -> list[EvalLog]:
    """The same in a loop that runs already."""
    call = _Call.of(options, EvalOptions, _as_model(model))
    known = PythonTasks(call.model)
    found: list[EvalLog] = []
    retried = listed(logs)
    refuse_one_id(call.asked, "run_id", runs=len(retried))
    for log in retried:
        paths = find_log(log)
        settings = call.options(known, runs_dir=paths.root.parent)
        await drain(paths, settings)
        planned = plan_retry(paths, call.overrides, known.reread, edited=call.reuse_edited)
        end = await carry_out_retry(planned, settings, call.watch, on_plan=call.tell_plan)
        call.tell_end(end)
        found.append(_read(known, planned.experiment, end.paths))
        if end.is_interrupted:
            break
    return found


def eval_set(
    tasks: Tasks,
    log_dir: str | Path,
    model: Models = None,
    *,
    retry_attempts: int = 10,
    retry_wait: float = 30.0,
    **options: Unpack[EvalSetOptions],
) -> tuple[bool, list[EvalLog]]:
    """Run tasks into one directory until all have succeeded; called again, it goes on where it was."""
    return run_to_end(
        eval_set_async(
            tasks, log_dir, model, retry_attempts=retry_attempts, retry_wait=retry_wait, **options
        ),
        "eval_set_async",
    )


async def eval_set_async(
    tasks: Tasks,
    log_dir: str | Path,
    model: Models = None,
    *,
    retry_attempts: int = 10,
    retry_wait: float = 30.0,
    **options: Unpack[EvalSetOptions],
) -> tuple[bool, list[EvalLog]]:
    """The same in a loop that runs already."""
    check_value("retry_attempts", retry_attempts)
    check_value("retry_wait", retry_wait)
    call = _Call.of(options, EvalSetOptions)
    known = PythonTasks()
    experiments = _resolve(known, tasks, model, call)
    end = await run_set(
        experiments,
        partial(call.options, known, runs_dir=Path(log_dir)),
        SetOptions(attempts=retry_attempts, wait_s=retry_wait, reuse_edited=call.reuse_edited),
        call.watch,
        on_plan=call.tell_plan,
    )
    for each in end.ends:
        call.tell_end(each)
    return end.exit_code is ExitCode.SUCCESS, [_read(known, *each) for each in end.newest]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Call:
    """Options of a run, sorted by who needs them."""

    asked: Asked
    overrides: Overrides
    is_shown: bool
    model: Model | None

    @classmethod
    def of(
        cls, options: Mapping[str, Any], known: type[EvalSetOptions], model: Model | None = None
    ) -> "_Call":
        asked = find_replayed(read_keywords(options, known))
        overrides = asked.overrides if model is None else _naming(model, asked.overrides)
        is_shown = is_displayed(asked.of_command.get("display"))
        return cls(asked=asked, overrides=overrides, is_shown=is_shown, model=model)

    def own(self, name: str) -> Any:  # noqa: ANN401 - any option's value
        """An option that is for the function alone; None where it was not given."""
        return self.asked.of_command.get(name)

    @property
    def reuse_edited(self) -> bool:
        return bool(self.own("reuse_edited"))

    def options(
        self, known: PythonTasks, experiment: Experiment | None = None, runs_dir: Path | None = None
    ) -> RunOptions:
        from labrunner.display.sitting import tell_checks

        overrides = self.overrides
        program = experiment.variants[0].program if experiment is not None else None
        if program is not None:
            overrides = replace(overrides, model=program.model, model_base_url=program.base_url)
        return make_run_options(
            self.asked,
            python=known,
            recorded=overrides,
            on_checks=tell_checks if self.is_shown else None,
            **({} if runs_dir is None else {"runs_dir": runs_dir}),
        )

    @property
    def watch(self) -> Watch:
        from labrunner.display.sitting import watch

        return watch if self.is_shown else _look_away

    def tell_end(self, end: RunEnd) -> None:
        """Say how a run ended; of samples that failed also where nothing else is shown."""
        if self.is_shown:
            from labrunner.display.sitting import tell_end

            tell_end(end, as_json=False)
        elif failed := end.status.counts.errors:
            told = "%d of %d samples failed and have no score: lab show %s"
            _log.warning(told, failed, end.status.counts.planned, address(end.paths))

    def tell_plan(self, planned: RetryPlan) -> None:
        if self.is_shown:
            from labrunner.display.takeover import tell_plan

            tell_plan(planned)


def _resolve(known: PythonTasks, tasks: Tasks, models: Models, call: _Call) -> list[Experiment]:
    """Resolve everything before anything is run."""
    asked: list[str | Model | None] = listed(models) if models is not None else [*_named_models()] or [None]
    experiments = [each for model in asked for each in _resolve_for(known, tasks, model, call.overrides)]
    for experiment in experiments:
        refuse_unheeded_options(call.overrides, experiment.policy.executor.kind)
    refuse_one_id(call.asked, "run_id", runs=len(experiments))
    return experiments


def _named_models() -> list[str]:
    """Models that the environment names, as for the command line's `--model`."""
    return os.environ.get(find_option("model").variable, "").split()


def _resolve_for(
    known: PythonTasks, tasks: Tasks, model: "str | Model | None", overrides: Overrides
) -> Iterator[Experiment]:
    given = _as_model(model)
    asked = overrides if given is None else _naming(given, overrides)
    for target in listed(tasks):
        for task in _make(target, asked):
            yield task if isinstance(task, Experiment) else known.resolve(task, asked, given)


def _make(given: object, overrides: Overrides) -> Sequence[Task | Experiment]:
    if isinstance(given, Task):
        return [given]
    if isinstance(given, str | Path):
        target = str(given)
        if is_python_target(target):
            return load_tasks(target, overrides.task_arguments)
        refuse_python(overrides, target)
        return [load(Path(target), overrides)]
    function = task_function(given)
    if function is None:
        raise InputError(
            "tasks",
            f"expected a file, an @task function or a Task, found {getattr(given, '__name__', given)!r}",
        )
    return [make_task(function, overrides.task_arguments)]


def _as_model(model: "str | Model | None") -> Model | None:
    return None if model is None else get_model(model)


def _naming(model: Model, overrides: Overrides) -> Overrides:
    """The same with a model; one with an address of its own is asked there."""
    url = model.base_url or overrides.model_base_url
    return replace(overrides, model=model.name, model_base_url=url)


def _read(known: PythonTasks, experiment: Experiment, paths: RunPaths) -> EvalLog:
    return EvalLog(paths.root, known.metrics(experiment))


async def _look_away(live: Live) -> None:
    del live
