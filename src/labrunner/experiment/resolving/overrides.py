"""What the command line changes about an experiment file, laid over the file before it is checked.

So a value from an option is decoded by the same rules as one in the file, and a message names the option.
Paths given by `--set` start from the experiment file's folder, as if they stood in it.
"""

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

from labrunner.errors import InputError
from labrunner.experiment.authoring.document import Document, FieldPath, Place, parse_value
from labrunner.experiment.authoring.problems import found


@dataclass(frozen=True, slots=True, kw_only=True)
class Overrides:
    """Options of the command line; what is None or empty leaves the file's."""

    sets: tuple[tuple[str, str], ...] = ()
    """`--set a.b=c`: field and value, in this order."""
    sandbox: str | None = None
    max_concurrency: int | str | None = None
    replications: int | None = None
    reducers: tuple[str, ...] = ()
    """How the scores of a Python sample's epochs become one."""
    limit: int | None = None
    task_ids: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    variants: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    """`--env K=V`: for the agent of every variant, taken literally."""
    fail_on_error: bool | float | str | None = None
    """Text is read as it would be in a file."""
    continue_on_fail: bool | None = None
    retry_on_error: int | None = None
    keep_workspace: str | None = None
    grader_dir: str | None = None
    """`lab regrade --grader DIR`: for the grader of every task, whatever the file says."""
    model: str | None = None
    """`--model` and what follows: for tasks written in Python alone."""
    model_base_url: str | None = None
    task_arguments: Mapping[str, Any] = field(default_factory=dict)
    """`-T name=value`."""
    generate: Mapping[str, Any] = field(default_factory=dict)
    """`-G name=value`: settings of the model's requests."""
    limits: Mapping[str, Any] = field(default_factory=dict)
    """Limits of an attempt, by name."""
    max_connections: int | None = None
    max_retries: int | None = None
    request_timeout_s: float | None = None

    def refuse_python(self, where: str) -> None:
        """Refuse options that mean something for Python tasks alone."""
        given = {
            "--model": self.model,
            "--model-base-url": self.model_base_url,
            "-T": self.task_arguments,
            "-G": self.generate,
            "epochs": self.reducers,
            "limits": self.limits,
            "--max-connections": self.max_connections,
        }
        for option, value in given.items():
            if value:
                raise InputError(option, f"is for tasks written in Python; {where} is an experiment file")


def apply_overrides(document: Document, overrides: Overrides) -> Document:
    """Lay the options over a file."""
    data, places = deepcopy(document.data), dict(document.places)
    for option, path, value in _options(overrides):
        _set(data, path, value, option)
        for old in [at for at in places if at[: len(path)] == path]:
            del places[old]
        places[path] = Place(file=option, line=None, folder=document.folder(()))
    return Document(data=data, places=places)


def _options(overrides: Overrides) -> list[tuple[str, FieldPath, Any]]:
    options: list[tuple[str, FieldPath, Any]] = []
    for name, text in overrides.sets:
        option = f"--set {name}={text}"
        options.append((option, _parse_path(name, option), parse_value(text, option)))
    fail_on_error = overrides.fail_on_error
    if isinstance(fail_on_error, str):
        fail_on_error = parse_value(fail_on_error, f"--fail-on-error={fail_on_error}")
    concurrency = overrides.max_concurrency
    if isinstance(concurrency, str):
        concurrency = parse_value(concurrency, f"--max-concurrency {concurrency}")
    plain = (
        ("--max-concurrency", ("max_concurrency",), concurrency),
        ("--replications", ("replications",), overrides.replications),
        ("--fail-on-error", ("fail_on_error",), fail_on_error),
        ("--continue-on-fail", ("continue_on_fail",), overrides.continue_on_fail),
        ("--retry-on-error", ("retry_on_error",), overrides.retry_on_error),
        ("--keep-workspace", ("keep", "workspace"), overrides.keep_workspace),
    )
    return options + [each for each in plain if each[2] is not None]


def _parse_path(name: str, option: str) -> FieldPath:
    parts = name.split(".")
    if not all(parts):
        raise InputError(option, f"'{name}' names no field; write it like agent.timeout_s=60")
    return tuple(int(part) if part.isdecimal() else part for part in parts)


def _set(data: Any, path: FieldPath, value: Any, option: str) -> None:  # noqa: ANN401 - not checked yet
    for number, part in enumerate(path):
        last = number == len(path) - 1
        if isinstance(data, list):
            if not isinstance(part, int) or part >= len(data):
                raise InputError(option, f"there is no item {part}: the list has {len(data)}, counted from 0")
        elif not isinstance(data, dict):
            raise InputError(option, f"'{path[number - 1]}' is {found(data)}, so it has no field '{part}'")
        elif not last:
            data.setdefault(part, {})
        if last:
            data[part] = value
        else:
            data = data[part]
