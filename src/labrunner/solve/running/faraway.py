"""A Python task on another machine: made there of what was delivered, and seen to be the one that was meant.

Rules: its code runs in a process of its own run alone, and finds in its environment what models' clients look
for, and nothing else of the machine that it comes from. Relative paths start from the task's file. A task
that can't be made there, or is not the same, is a check that fails.
"""

import asyncio
import os
import platform
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from labrunner.errors import InputError
from labrunner.executor.cargo import Delivered
from labrunner.executor.door import Executor
from labrunner.experiment.digests import measured
from labrunner.experiment.options.overrides import Overrides
from labrunner.experiment.resolved import Folder, Program
from labrunner.sandbox.door import Check, SandboxMaker
from labrunner.solve.models.mock import make_scripted
from labrunner.solve.resolving.loading import load_tasks
from labrunner.solve.resolving.syntax import read_code
from labrunner.solve.resolving.task_resolution import LiveTask, make_live
from labrunner.solve.running.python_executor import SolveExecutor
from labrunner.solve.running.recipe import CARRIED, PROJECT, Recipe, decode_recipe
from labrunner.trial.assignment import TrialContext


class FarawayTask:
    """One task, as it was delivered."""

    def __init__(self, recipe: Recipe, folder: Path) -> None:
        """Nothing is loaded yet."""
        self._recipe = recipe
        self._folder = folder
        self._live: LiveTask | None = None

    def find(self) -> LiveTask:
        """Its code. Raises InputError, with paths as they are where it comes from."""
        if self._live is None:
            try:
                self._live = self._make()
            except InputError as error:
                raise InputError(self._spell(error.where), self._spell(error.problem)) from error
        return self._live

    def _make(self) -> LiveTask:
        recipe, project = self._recipe, self._folder / PROJECT
        file = project / recipe.file
        sys.path[:0] = [str(project / root) for root in recipe.roots]
        sys.dont_write_bytecode = True
        os.chdir(file.parent)
        (task,) = load_tasks(f"{file}@{recipe.program.task}", recipe.program.arguments)
        live, made = make_live(task, msgspec.convert(recipe.overrides, Overrides))
        code = Folder(path=str(file), digest=read_code(file).digest)
        modules = {name: read_code(project / path).digest for name, path in recipe.modules.items()}
        self._compare(replace(made, file=code, modules=modules))
        return live if recipe.script is None else _with_script(live, self._folder / recipe.script)

    def _compare(self, made: Program) -> None:
        """Refuse what is not the task that was meant."""
        meant, found = measured(self._recipe.program), measured(made)
        changed = [name for name in meant if meant[name] != found[name]]
        if not changed:
            return
        told = f"the task is another one here ({_tell(changed, meant, found)}), with Python"
        told += f" {platform.python_version()}; was it edited, or does it depend on the machine?"
        raise InputError(f"{self._folder / PROJECT / self._recipe.file}", told)

    def _spell(self, text: str) -> str:
        return text.replace(str(self._folder / PROJECT), self._recipe.project)


def _tell(changed: list[str], meant: Mapping[str, Any], found: Mapping[str, Any]) -> str:
    if changed == ["modules"]:
        names = [name for name, digest in meant["modules"].items() if found["modules"].get(name) != digest]
        return f"modules {', '.join(names)}"
    return ", ".join(changed)


def _with_script(live: LiveTask, path: Path) -> LiveTask:
    if live.model is None:
        return live
    return replace(live, model=replace(live.model, backend=partial(make_scripted, path, live.model.name)))


class FarawayExecutor(SolveExecutor):
    """Carries out attempts of a task that was delivered."""

    def __init__(self, context: TrialContext, make: Callable[[str], SandboxMaker], task: FarawayTask) -> None:
        """Take the task, not loaded yet."""
        super().__init__(context, make, task.find)
        self._task = task

    async def preflight(self) -> tuple[Check, ...]:
        """See that the task can be made here, and the rest as on any machine."""
        try:
            await asyncio.to_thread(self._task.find)
        except InputError as error:
            return (Check(name="task", passed=False, message=str(error)),)
        return await super().preflight()


def make_faraway(
    context: TrialContext, make: Callable[[str], SandboxMaker], delivered: Delivered
) -> Executor:
    """Make who carries out what was delivered."""
    recipe = decode_recipe(delivered.words)
    variables = {name: context.secrets[f"{CARRIED}{name}"] for name in recipe.environment}
    os.environ.update(variables)
    declared = {name: value for name, value in context.secrets.items() if not name.startswith(CARRIED)}
    own = replace(context, secrets={**variables, **declared})  # as on one machine: what is masked is the same
    return FarawayExecutor(own, make, FarawayTask(recipe, delivered.folder))
