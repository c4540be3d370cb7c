"""The command line of all that takes an experiment: `run`, `plan`, `doctor`, `retry` and `set` share it.

So `lab plan` with the same words shows exactly what `lab run` would do.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from labrunner.analysis.judging.requirements import Requirements, parse_requirements
from labrunner.cli.carrying.signature import add_command
from labrunner.cli.pieces import find_runs, make_app
from labrunner.display.text.saying import say_aside
from labrunner.errors import InputError
from labrunner.evaluation.request import find_replayed, make_run_options, refuse_one_id
from labrunner.experiment.agents.furnished import AgentsMissing
from labrunner.experiment.options.asked import Asked
from labrunner.experiment.options.layers import refuse_python
from labrunner.experiment.options.overrides import Overrides
from labrunner.experiment.options.table import OPTIONS, flag
from labrunner.experiment.resolved import Experiment
from labrunner.experiment.resolving.hazards import refuse_unheeded_options
from labrunner.experiment.resolving.load import load
from labrunner.runner.start import RunOptions
from labrunner.sandbox.door import Check
from labrunner.solve.origin import PythonTasks
from labrunner.solve.resolving.python_target import is_python_target

DEFAULT_TARGET: Final = Path("experiment.yaml")

INSTALLING: Final = ("run", "set")
"""Commands that install agents which are not there."""
AGENTLESS: Final = ("doctor",)
"""Commands that do without an agent where none is named."""

_Targets = Annotated[
    list[Path] | None,
    typer.Argument(
        metavar="TARGET", help="experiment files (default: ./experiment.yaml), or Python tasks: FILE.py@NAME"
    ),
]
_Runs = Annotated[
    list[Path] | None,
    typer.Argument(metavar="RUN", help="paths, ids, unique parts of ids, or `last` (the default)"),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """What a person asked for."""

    targets: tuple[Path, ...]
    asked: Asked
    models: tuple[str, ...]
    """Of Python tasks: each gets a run of its own."""
    log_dir: Path
    as_json: bool = False
    dry_run: bool = False
    view: bool = False
    offline: bool = False
    no_install: bool = False
    installs: bool = False
    """Whether the command may install agents."""
    needs_agent: bool = True
    """Whether an agent must be named."""
    reuse: Path | None = None
    reuse_edited: bool = False
    attempts: int | None = None
    wait_s: float | None = None
    power: str | None = None
    detect: float | None = None
    require: tuple[str, ...] = ()
    require_stable: bool = False
    require_coverage: float | None = None
    python: PythonTasks = field(default_factory=PythonTasks)
    """The Python tasks that were met."""

    @property
    def overrides(self) -> Overrides:
        """What options change about the experiments."""
        return self.asked.overrides

    def requirements(self) -> Requirements:
        """What the results must meet."""
        return parse_requirements(self.require, is_stable=self.require_stable, coverage=self.require_coverage)

    def options(
        self,
        experiment: Experiment | None = None,
        *,
        on_checks: Callable[[tuple[Check, ...]], None] | None = None,
    ) -> RunOptions:
        """How runs are carried out; those of an experiment keep which of the models was asked for."""
        overrides = self.overrides
        if self.models and experiment is not None:
            overrides = replace(overrides, model=_find_model(experiment))
        how = make_run_options(self.asked, python=self.python, recorded=overrides, on_checks=on_checks)
        return replace(how, runs_dir=self.log_dir)

    def experiments(self) -> tuple[Experiment, ...]:
        """Load every target before anything is done with the first."""
        asked = [replace(self.overrides, model=model) for model in self.models] or [self.overrides]
        experiments = tuple(
            each for how in asked for target in self.targets for each in self._load(target, how)
        )
        for experiment in experiments:
            refuse_unheeded_options(self.overrides, experiment.policy.executor.kind)
        refuse_one_id(self.asked, flag("run_id"), runs=len(experiments))
        return experiments

    def _load(self, target: Path, overrides: Overrides) -> list[Experiment]:
        _refuse_value(target)
        if is_python_target(str(target)):
            return self.python.load(str(target), overrides)
        refuse_python(overrides, str(target))
        try:
            return [load(target, overrides, needs_agent=self.needs_agent)]
        except AgentsMissing as missing:
            if not self.installs or self.no_install:
                raise
            _install(missing)
        return [load(target, overrides, needs_agent=self.needs_agent)]


def make_target_app(
    act: Callable[[Call], int],
    command: str,
    does: str,
    *,
    takes_runs: bool = False,
    may_lack: bool = False,
) -> typer.Typer:
    """Make a command that takes experiments, or runs; `act` returns the exit code.

    A command that `may_lack` an experiment gets none where none is named and none lies in this folder.
    """

    def call(targets: list[Path] | None, asked: Asked, words: Mapping[str, Any]) -> int:
        models = tuple(dict.fromkeys(words["model"] or ()))
        if takes_runs and len(models) > 1:
            raise InputError(flag("model"), f"a retry has one model, but {len(models)} are named")
        runs_dir = asked.of_run["runs_dir"]
        asked = find_replayed(asked)
        return act(
            Call(
                targets=tuple(targets or _find_default(takes_runs=takes_runs, may_lack=may_lack)),
                asked=asked,
                models=models,
                log_dir=find_runs(runs_dir) if takes_runs else runs_dir,
                installs=command in INSTALLING,
                needs_agent=command not in AGENTLESS,
                **asked.of_command,
            )
        )

    app = make_app()
    add_command(app, command, call, argument=_Runs if takes_runs else _Targets, does=does)
    return app


def _find_model(experiment: Experiment) -> str | None:
    """The model that was asked for: a Python task's, or that of an agent by name."""
    first = experiment.variants[0]
    if first.program is not None:
        return first.program.model
    return first.agent.named.model if first.agent.named is not None else None


def _install(missing: AgentsMissing) -> None:
    from labrunner.depot.installation import install  # here, because few runs have to

    for release in missing.releases:
        install(release, say_aside)


def _refuse_value(target: Path) -> None:
    """Say how an option takes its value when the value stands where a file should."""
    text = str(target)
    if re.fullmatch(r"[0-9.]+|true|false", text) and not target.exists():
        picky = [option for option in OPTIONS if option.bare is not None]
        told = f"{' and '.join(option.label for option in picky)} take a value only with `=`"
        raise InputError(text, f"there is no such file; {told}: {picky[0].spell(text)}")


def find_scripts() -> list[str]:
    """Python files of this folder: perhaps a task is in one of them."""
    return sorted(path.name for path in Path.cwd().glob("*.py"))


def _find_default(*, takes_runs: bool, may_lack: bool) -> list[Path]:
    """The experiment of this folder; where there are only Python files, people meant one of those."""
    if takes_runs:
        return [Path("last")]
    if may_lack and not DEFAULT_TARGET.exists():
        return []
    scripts = find_scripts()
    if scripts and not DEFAULT_TARGET.exists():
        raise InputError(
            str(DEFAULT_TARGET), f"there is no such file; for a task in Python, name it: lab run {scripts[0]}"
        )
    return [DEFAULT_TARGET]
