"""Options of `eval()` and its kin: what may be given as a keyword, and what each one changes.

Named as on the command line. A value of the wrong kind is refused before anything is read or written.
"""

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, Final, Literal, TypedDict

from labrunner.errors import InputError
from labrunner.experiment.resolving.overrides import Overrides
from labrunner.solve.scoring.metrics import Epochs
from labrunner.solve.values import kinds
from labrunner.solve.values.config import GenerateConfig


class EvalSetOptions(TypedDict, total=False):
    """Options of a run. What is left out is the task's own, or the default."""

    task_args: Mapping[str, Any]
    """Arguments of `@task` functions."""
    model_base_url: str
    sandbox: str
    epochs: int | Epochs
    limit: int
    """Only the first so many samples."""
    sample_id: str | int | Sequence[str | int]
    """Only these samples; patterns as in a shell."""
    tag: str | Sequence[str]
    """Only tasks with one of these tags, where an experiment file has them."""
    variant: str | Sequence[str]
    set: Mapping[str, Any]
    """Fields of an experiment file by their path, such as `{"breaker.after": 3}`."""
    env: Mapping[str, str]
    """Variables for what runs in sandboxes."""
    fail_on_error: bool | float
    continue_on_fail: bool
    retry_on_error: int
    budget: Mapping[str, float]
    """What the whole run may use, such as `{"cost_usd": 5, "tokens": 1_000_000}`."""
    max_concurrency: int | Literal["auto"]
    max_samples: int
    """The same as `max_concurrency`, as people know it."""
    max_connections: int
    max_retries: int
    timeout: float
    time_limit: float
    working_limit: float
    message_limit: int
    token_limit: int
    cost_limit: float
    temperature: float
    max_tokens: int
    top_p: float
    top_k: int
    seed: int
    stop_seqs: Sequence[str]
    frequency_penalty: float
    presence_penalty: float
    parallel_tool_calls: bool
    system_message: str
    keep_workspace: Literal["failed", "always", "never"]
    keep_sandbox: Literal["failed", "never"]
    """Whether containers of samples that did not pass are left for a look."""
    reuse_edited: bool
    """Where results are taken over: also those of code that was edited since. Kept in the run."""
    run_id: str
    grace: float
    env_file: str | Path
    display: bool | Literal["full", "conversation", "rich", "plain", "log", "none"]
    """Show progress and how it ended; by default where standard error is a terminal. `none` is false."""


class EvalOptions(EvalSetOptions, total=False):
    """Options of a run, with where it is kept."""

    log_dir: str | Path


class NewEvalOptions(EvalOptions, total=False):
    """Options of a run that is no retry."""

    reuse: str | Path
    """Take over good results of the runs in this directory."""


_LIMITS: Final = {
    "time_limit": "time_s",
    "working_limit": "working_s",
    "message_limit": "messages",
    "token_limit": "tokens",
    "cost_limit": "cost_usd",
}
_SETTINGS: Final = frozenset(each.name for each in fields(GenerateConfig))
_POLICY: Final = frozenset({"max_connections", "max_retries", "timeout"})
_KINDS: Final = {
    "task_args": kinds.MAP,
    "model_base_url": kinds.TEXT,
    "sandbox": kinds.TEXT,
    "limit": kinds.COUNT,
    "set": kinds.MAP,
    "budget": kinds.MAP,
    "env": kinds.MAP_OF_TEXTS,
    "max_connections": kinds.COUNT,
    "max_retries": kinds.COUNT_OR_NONE,
    "timeout": kinds.POSITIVE,
    "stop_seqs": kinds.TEXTS,
    "reuse_edited": kinds.TRUTH,
    "run_id": kinds.TEXT,
    "grace": kinds.NOT_NEGATIVE,
}
"""What is not checked where it is used."""


def check_options(options: Mapping[str, Any]) -> None:
    """Refuse options that there are not, and values that can't be theirs."""
    known = EvalOptions.__annotations__
    for name, value in options.items():
        if name not in known:
            raise InputError(name, f"is no option of a run; there are: {', '.join(sorted(known))}")
        if name in _KINDS:
            _KINDS[name].check(name, value)


def listed(given: Any) -> list[Any]:  # noqa: ANN401 - one of something, or many
    """One of something, or many, as a list."""
    return list(given) if isinstance(given, Sequence) and not isinstance(given, str) else [given]


def make_overrides(given: Mapping[str, Any]) -> Overrides:
    """What options change about a task or an experiment file."""
    epochs = given.get("epochs")
    return Overrides(
        sandbox=given.get("sandbox"),
        max_concurrency=given.get("max_concurrency", given.get("max_samples")),
        replications=epochs.epochs if isinstance(epochs, Epochs) else epochs,
        reducers=epochs.reducers if isinstance(epochs, Epochs) else (),
        limit=given.get("limit"),
        task_ids=tuple(str(each) for each in listed(given.get("sample_id", ()))),
        tags=tuple(listed(given.get("tag", ()))),
        variants=tuple(listed(given.get("variant", ()))),
        sets=(*_sets(given.get("set", {})), *_sets(given.get("budget", {}), prefix="budget.")),
        env=dict(given.get("env", {})),
        fail_on_error=given.get("fail_on_error"),
        continue_on_fail=given.get("continue_on_fail"),
        retry_on_error=given.get("retry_on_error"),
        keep_workspace=given.get("keep_workspace"),
        model_base_url=given.get("model_base_url"),
        task_arguments=dict(given.get("task_args", {})),
        generate={
            name: list(value) if name == "stop_seqs" else value
            for name, value in given.items()
            if name in _SETTINGS - _POLICY
        },
        limits={_LIMITS[name]: value for name, value in given.items() if name in _LIMITS},
        max_connections=given.get("max_connections"),
        max_retries=given.get("max_retries"),
        request_timeout_s=given.get("timeout"),
    )


def _sets(given: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    return ((f"{prefix}{name}", json.dumps(value)) for name, value in given.items())


def is_displayed(display: object) -> bool:
    """Whether people are shown what happens."""
    match display:
        case None:
            return sys.stderr.isatty()
        case bool():
            return display
        case "none":
            return False
        case "full" | "conversation" | "rich" | "plain" | "log":
            return True
        case _:
            told = "expected true, false, 'none', 'plain' or 'full'"
            raise InputError("display", f"{told}, found {display!r}")


def is_kept(keep_sandbox: str | None) -> bool:
    """Whether containers of samples that did not pass are left."""
    if keep_sandbox not in {None, "failed", "never"}:
        raise InputError("keep_sandbox", f"expected 'failed' or 'never', found {keep_sandbox!r}")
    return keep_sandbox == "failed"
