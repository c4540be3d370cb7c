"""Where Python tasks come from: files to experiments, runs back to tasks, experiments to executors.

The runner knows nothing of Python tasks; whoever starts a run hands it `PythonTasks.executor` and
`PythonTasks.reread`. Light to import: the rest of this room is loaded when a Python task is met.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from labrunner.errors import InputError
from labrunner.executor.cargo import Cargo, OwnCode, TakesOwnCode
from labrunner.executor.door import Executor
from labrunner.executor.registry import make_named_executor, takes_own_code
from labrunner.experiment.options.layers import refuse_files
from labrunner.experiment.options.overrides import Overrides
from labrunner.experiment.options.table import flag
from labrunner.experiment.resolved import Experiment, Program
from labrunner.experiment.run_policy import LOCAL
from labrunner.records.run import RunRecord
from labrunner.runner.rereading import reread_file
from labrunner.sandbox.door import SandboxMaker
from labrunner.trial.assignment import TrialContext

if TYPE_CHECKING:
    from labrunner.solve.models.asking import Model
    from labrunner.solve.resolving.task import Task
    from labrunner.solve.resolving.task_resolution import LiveTask
    from labrunner.solve.values.score import Metric


class PythonTasks:
    """The Python tasks that this process has made, by the digests of their experiments."""

    def __init__(self, model: "Model | None" = None) -> None:
        """Know none yet; `model` is asked instead of the one that a name stands for."""
        self._lives: dict[str, LiveTask] = {}
        self._asked: dict[str, tuple[Overrides, Model | None]] = {}
        """What each was made with."""
        self._model = model

    def load(self, target: str, overrides: Overrides) -> list[Experiment]:
        """Resolve the tasks of a Python file, or one of them: `ctf.py`, `ctf.py@name`."""
        from labrunner.solve.resolving.loading import load_tasks

        return [self.resolve(task, overrides) for task in load_tasks(target, overrides.task_arguments)]

    def resolve(self, task: "Task", overrides: Overrides, model: "Model | None" = None) -> Experiment:
        """Resolve a task, and remember its code."""
        from labrunner.solve.resolving.task_resolution import resolve_task

        refuse_files(overrides)
        asked = model or self._model
        resolved = resolve_task(task, overrides, asked)
        self._lives[resolved.experiment.digest] = resolved.live
        self._asked[resolved.experiment.digest] = (overrides, asked)
        return resolved.experiment

    def executor(self, name: str, context: TrialContext, make: Callable[[str], SandboxMaker]) -> Executor:
        """Who carries out an experiment's attempts: that of a name, or this process."""
        program = context.experiment.variants[0].program
        if program is None or not program.in_process:
            return make_named_executor(name, context, make)
        from labrunner.solve.running.python_executor import SolveExecutor

        def make_here() -> Executor:
            return SolveExecutor(context, make, lambda: self._find(context, program))

        if name == LOCAL:
            return make_here()
        if not takes_own_code(name):
            told = f"solvers and scorers in Python run in this process; {name} can't carry them out"
            raise InputError(flag("executor"), told)
        made = make_named_executor(name, context, make)
        assert isinstance(made, TakesOwnCode)
        made.take_code(OwnCode(pack=lambda: self._pack(context, program), make_here=make_here))
        return made

    def metrics(self, experiment: Experiment) -> "Mapping[str, Sequence[Metric]]":
        """The metrics of an experiment's figures, where the code of its scorers is at hand."""
        live = self._lives.get(experiment.digest)
        if live is None:
            return {}
        from labrunner.solve.scoring.totals import name_figures

        return {
            name: metrics
            for judge in live.judges
            for name, metrics in name_figures(judge.name, judge.metrics, judge.metrics_of_keys).items()
        }

    def reread(self, record: RunRecord, overrides: Overrides) -> Experiment:
        """Resolve a run's experiment as it is now: its file, or its `@task` function called again."""
        program = read_program(record.experiment)
        if program is None:
            return reread_file(record, overrides)
        return self.resolve(_make_again(program, overrides, f"run {record.run_id}"), overrides)

    def _find(self, context: TrialContext, program: Program) -> "LiveTask":
        """The code of an experiment: remembered, or made again."""
        digest = context.experiment.digest
        if digest not in self._lives:
            model = program.model
            overrides = Overrides(model=model, limits=program.limits, generate=program.config)
            overrides = replace(overrides, model_base_url=program.base_url)
            made = self.resolve(_make_again(program, overrides, f"run {context.run_id}"), overrides)
            # Made with the whole dataset, where the run may have only a part: the code is the same.
            self._lives[digest], self._asked[digest] = self._lives[made.digest], self._asked[made.digest]
        return self._lives[digest]

    async def _pack(self, context: TrialContext, program: Program) -> Cargo:
        """What another machine needs to have the task's code."""
        from labrunner.solve.running.disclosure import choose_secrets
        from labrunner.solve.running.packing import pack_task

        live = await asyncio.to_thread(self._find, context, program)
        hidden = choose_secrets(context.experiment, context.secrets)
        return await pack_task(program, live, *self._asked[context.experiment.digest], hidden)


def read_program(record: Mapping[str, Any]) -> Program | None:
    """The Python task of a recorded experiment; None for one that came from a file."""
    import msgspec

    plain = record["variants"][0].get("program")
    return None if plain is None else msgspec.convert(plain, Program)


def _make_again(program: Program, overrides: Overrides, who: str) -> "Task":
    """Call a task's function again, with what it was called with before."""
    if program.file is None or not program.is_repeatable:
        raise InputError(
            f"task {program.task}",
            f"{who} can't be continued or retried: its Task was made outside of an @task function, or with "
            "arguments that can't be recorded; make it in a function of a file, with @task above it",
        )
    from labrunner.solve.resolving.loading import load_tasks

    arguments = {**program.arguments, **overrides.task_arguments}
    return load_tasks(f"{program.file.path}@{program.task}", arguments)[0]
