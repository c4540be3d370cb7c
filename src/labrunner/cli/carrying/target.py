"""The command line of everything that takes an experiment: `run`, `plan` and `doctor` share it.

So `lab plan` with the same words shows exactly what `lab run` would do.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, Final

import msgspec
import typer

from labrunner.analysis.judging.requirements import Requirements, parse_requirements
from labrunner.cli.options import Json, NewLogDir, find_runs, make_app, pairs, parse_count
from labrunner.errors import InputError
from labrunner.experiment.authoring.document import parse_value
from labrunner.experiment.env_file import secrets_from
from labrunner.experiment.resolved import Experiment
from labrunner.experiment.resolving.load import load
from labrunner.experiment.resolving.overrides import Overrides
from labrunner.runner.start import RunOptions, default_grace_s
from labrunner.sandbox.door import Check
from labrunner.solve.origin import PythonTasks
from labrunner.solve.resolving.python_target import is_python_target
from labrunner.store.reading.listing import DEFAULT_RUNS

DEFAULT_TARGET: Final = Path("experiment.yaml")

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
_Sandbox = Annotated[
    str | None, typer.Option(help="docker, bubblewrap or process, instead of the experiment's")
]
_MaxConcurrency = Annotated[str | None, typer.Option(help="how many trials at once, or `auto`")]
_Replications = Annotated[
    int | None, typer.Option("--replications", "--epochs", min=1, help="repeats of each trial")
]
_Limit = Annotated[int | None, typer.Option(min=1, help="only the first N tasks")]
_TaskIds = Annotated[
    list[str] | None, typer.Option("--task-id", "--sample-id", help="only these tasks (glob; repeatable)")
]
_Tags = Annotated[list[str] | None, typer.Option("--tag", help="only tasks with this tag (repeatable)")]
_Variants = Annotated[list[str] | None, typer.Option("--variant", help="only this variant (repeatable)")]
_Sets = Annotated[
    list[str] | None, typer.Option("--set", envvar="LAB_SET", help="a.b=c: set a field (repeatable)")
]
_Env = Annotated[list[str] | None, typer.Option("--env", help="K=V: a variable for the agent (repeatable)")]
_EnvFile = Annotated[Path | None, typer.Option(help="a file of K=V lines with values of secrets")]
_FailOnError = Annotated[
    str | None,
    typer.Option(
        "--fail-on-error",
        metavar="[=X]",
        help="true, false, or how many errored trials are tolerated, as share or count; "
        "value only with `=`; also --no-fail-on-error",
    ),
]
_ContinueOnFail = Annotated[
    bool | None, typer.Option("--continue-on-fail", help="run everything, fail at the end")
]
_RetryOnError = Annotated[
    str | None,
    typer.Option("--retry-on-error", metavar="[=N]", help="retry errored trials; value only with `=`"),
]
_RunId = Annotated[str | None, typer.Option(help="the new run's id, instead of a made one")]
_Grace = Annotated[
    float | None, typer.Option(min=0, help="seconds for trials in flight when stopped (30; 5 under CI)")
]
_KeepWorkspace = Annotated[
    str | None, typer.Option("--keep-workspace", help="failed, always or never: which workspaces are kept")
]
_KeepFailed = Annotated[
    str | None, typer.Option("--keep-sandbox", help="`failed`: leave containers of trials that did not pass")
]
_Models = Annotated[
    list[str] | None,
    typer.Option(
        "--model", help="a Python task's model: provider/name, or mock/echo; a run for each (repeatable)"
    ),
]
_BaseUrl = Annotated[str | None, typer.Option("--model-base-url", help="where the model's provider answers")]
_Arguments = Annotated[
    list[str] | None,
    typer.Option("-T", envvar="LAB_TASK_ARGS", help="name=value: an argument of @task (repeatable)"),
]
_Generate = Annotated[
    list[str] | None,
    typer.Option("-G", envvar="LAB_GENERATE", help="name=value: a setting of the model (repeatable)"),
]
_Connections = Annotated[
    int | None, typer.Option("--max-connections", min=1, help="requests at once to a model's provider (10)")
]
_TimeLimit = Annotated[float | None, typer.Option(help="seconds for an attempt at a Python task's sample")]
_WorkingLimit = Annotated[float | None, typer.Option(help="the same, without waiting for providers")]
_MessageLimit = Annotated[int | None, typer.Option(help="messages of an attempt's conversation")]
_TokenLimit = Annotated[int | None, typer.Option(help="tokens of an attempt")]
_CostLimit = Annotated[float | None, typer.Option(help="US dollars of an attempt")]
_DryRun = Annotated[bool, typer.Option("--dry-run", help="only show the plan (= `lab plan`)")]


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """What a person asked for."""

    targets: tuple[Path, ...]
    overrides: Overrides
    models: tuple[str, ...]
    """Of Python tasks: each gets a run of its own."""
    log_dir: Path
    run_id: str | None
    grace_s: float
    env_file: Path | None
    as_json: bool
    dry_run: bool
    keep_sandbox: bool
    reuse: Path | None
    reuse_edited: bool
    attempts: int | None
    wait_s: float | None
    power: str | None
    detect: float | None
    require: tuple[str, ...]
    require_stable: bool
    require_coverage: float | None
    python: PythonTasks = field(default_factory=PythonTasks)
    """The Python tasks that were met."""

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
        program = experiment.variants[0].program if experiment is not None else None
        if self.models and program is not None:
            overrides = replace(overrides, model=program.model)
        return RunOptions(
            runs_dir=self.log_dir,
            secrets=secrets_from(self.env_file),
            run_id=self.run_id,
            grace_s=self.grace_s,
            env_file=self.env_file,
            overrides=msgspec.to_builtins(overrides),
            keep_sandbox=self.keep_sandbox,
            on_checks=on_checks,
            executor=self.python.executor,
            reread=self.python.reread,
        )

    def experiments(self) -> tuple[Experiment, ...]:
        """Load every target before anything is done with the first."""
        asked = [replace(self.overrides, model=model) for model in self.models] or [self.overrides]
        experiments = tuple(
            each for how in asked for target in self.targets for each in self._load(target, how)
        )
        if self.run_id is not None and len(experiments) > 1:
            raise InputError("--run-id", f"names one run, but there are {len(experiments)} experiments")
        return experiments

    def _load(self, target: Path, overrides: Overrides) -> list[Experiment]:
        _refuse_value(target)
        if is_python_target(str(target)):
            return self.python.load(str(target), overrides)
        overrides.refuse_python(str(target))
        return [load(target, overrides)]


def make_target_app(
    act: Callable[[Call], int],
    does: str,
    *,
    takes_runs: bool = False,
    own: tuple[str, ...] = (),
    may_lack: bool = False,
) -> typer.Typer:
    """Make a command that takes experiments, or runs; `act` returns the exit code.

    A command that `may_lack` an experiment gets none where none is named and none lies in this folder.
    `own` names the options that not every such command has; the others refuse them.
    """
    app = make_app()
    targets_type = _Runs if takes_runs else _Targets

    def option(name: str, does: str, least: float | None = None) -> Any:  # noqa: ANN401 - typer's own marker
        return typer.Option(name, hidden=name not in own, help=does, min=least)

    @app.command(help=does)
    def command(  # noqa: PLR0913 - the signature is the command line
        targets: targets_type = None,  # type: ignore[valid-type]  # chosen above
        sandbox: _Sandbox = None,
        max_concurrency: _MaxConcurrency = None,
        replications: _Replications = None,
        limit: _Limit = None,
        task_id: _TaskIds = None,
        tag: _Tags = None,
        variant: _Variants = None,
        sets: _Sets = None,
        env: _Env = None,
        env_file: _EnvFile = None,
        fail_on_error: _FailOnError = None,
        continue_on_fail: _ContinueOnFail = None,
        retry_on_error: _RetryOnError = None,
        run_id: _RunId = None,
        log_dir: NewLogDir = DEFAULT_RUNS,
        grace: _Grace = None,
        keep_workspace: _KeepWorkspace = None,
        keep_sandbox: _KeepFailed = None,
        reuse: Annotated[
            Path | None, option("--reuse", "take over good results of the runs in this directory")
        ] = None,
        reuse_edited: Annotated[
            bool | None,
            option("--reuse-edited", "also take over results of code that was edited since; kept in the run"),
        ] = None,
        retry_attempts: Annotated[
            int | None, option("--retry-attempts", "how often each experiment is tried (10); 0 is once", 0)
        ] = None,
        retry_wait: Annotated[
            float | None,
            option("--retry-wait", "seconds before it is tried again (30); doubles each time", 0),
        ] = None,
        power: Annotated[
            str | None, option("--power", "a pilot run: also show which difference this plan would detect")
        ] = None,
        detect: Annotated[
            float | None, option("--detect", "with --power: what it takes to detect this difference")
        ] = None,
        require: Annotated[
            list[str] | None,
            option("--require", "a condition on the result; not met is exit code 4 (repeatable)"),
        ] = None,
        require_stable: Annotated[
            bool | None, option("--require-stable", "exit code 4 when retries may have bent the result")
        ] = None,
        require_coverage: Annotated[
            float | None, option("--require-coverage", "exit code 4 when a smaller share of trials is graded")
        ] = None,
        model: _Models = None,
        model_base_url: _BaseUrl = None,
        task_args: _Arguments = None,
        generate: _Generate = None,
        max_connections: _Connections = None,
        time_limit: _TimeLimit = None,
        working_limit: _WorkingLimit = None,
        message_limit: _MessageLimit = None,
        token_limit: _TokenLimit = None,
        cost_limit: _CostLimit = None,
        dry_run: _DryRun = False,
        as_json: Json = False,
    ) -> None:
        _refuse_foreign(
            own,
            {
                "--require": require or None,
                "--require-stable": require_stable or None,
                "--require-coverage": require_coverage,
                "--reuse": reuse,
                "--reuse-edited": reuse_edited or None,
                "--retry-attempts": retry_attempts,
                "--retry-wait": retry_wait,
                "--power": power,
                "--detect": detect,
            },
        )
        models = tuple(dict.fromkeys(model or ()))
        if takes_runs and len(models) > 1:
            raise InputError("--model", f"a retry has one model, but {len(models)} are named")
        overrides = Overrides(
            sets=pairs(sets, "--set"),
            sandbox=sandbox,
            max_concurrency=max_concurrency,
            replications=replications,
            limit=limit,
            task_ids=tuple(task_id or ()),
            tags=tuple(tag or ()),
            variants=tuple(variant or ()),
            env=dict(pairs(env, "--env")),
            fail_on_error=fail_on_error,
            continue_on_fail=continue_on_fail,
            retry_on_error=parse_count(retry_on_error, "--retry-on-error"),
            keep_workspace=keep_workspace,
            model=models[0] if models else None,
            model_base_url=model_base_url,
            task_arguments=_values(task_args, "-T"),
            generate=_values(generate, "-G"),
            limits=_given(
                time_s=time_limit,
                working_s=working_limit,
                messages=message_limit,
                tokens=token_limit,
                cost_usd=cost_limit,
            ),
            max_connections=max_connections,
        )
        call = Call(
            targets=tuple(targets or _find_default(takes_runs=takes_runs, may_lack=may_lack)),
            overrides=overrides,
            models=models,
            log_dir=find_runs(log_dir) if takes_runs else log_dir,
            run_id=run_id,
            grace_s=default_grace_s() if grace is None else grace,
            env_file=env_file,
            as_json=as_json,
            dry_run=dry_run,
            keep_sandbox=_is_failed(keep_sandbox),
            reuse=reuse,
            reuse_edited=bool(reuse_edited),
            attempts=retry_attempts,
            wait_s=retry_wait,
            power=power,
            detect=detect,
            require=tuple(require or ()),
            require_stable=bool(require_stable),
            require_coverage=require_coverage,
        )
        raise typer.Exit(act(call))

    return app


def _values(words: list[str] | None, option: str) -> dict[str, Any]:
    """Names and values, each read the way it would be read in a file."""
    return {name: parse_value(text, f"{option} {name}={text}") for name, text in pairs(words, option)}


def _given(**values: float | None) -> dict[str, float]:
    return {name: value for name, value in values.items() if value is not None}


def _refuse_foreign(own: tuple[str, ...], given: Mapping[str, object]) -> None:
    for name, value in given.items():
        if value is not None and name not in own:
            raise InputError(name, "is not an option of this command")


def _refuse_value(target: Path) -> None:
    """Say how an option takes its value when the value stands where a file should."""
    text = str(target)
    if re.fullmatch(r"[0-9.]+|true|false", text) and not target.exists():
        raise InputError(
            text,
            "there is no such file; --fail-on-error and --retry-on-error take a value only with `=`: "
            f"--fail-on-error={text}",
        )


def _is_failed(keep_sandbox: str | None) -> bool:
    if keep_sandbox not in {None, "failed", "never"}:
        raise InputError("--keep-sandbox", f"expected failed or never, found {keep_sandbox!r}")
    return keep_sandbox == "failed"


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
