"""Written by `python -m tests.kit.experiment.stubs`; edit the table of options, not this file."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypedDict

from labrunner.solve.scoring.metrics import Epochs

class EvalSetOptions(TypedDict, total=False):
    """Options of a run. What is left out is the task's own, or the default."""

    sandbox: str
    max_samples: int
    """The same as `max_concurrency`, as people know it."""
    max_concurrency: int | Literal["auto"]
    executor: str
    executor_address: str
    """Where a Ray cluster is: `host:port` of its head, or `auto`."""
    epochs: int | Epochs
    limit: int
    """Only the first so many samples."""
    sample_id: str | int | Sequence[str | int]
    """Only these samples; patterns as in a shell."""
    tag: str | Sequence[str]
    """Only tasks with one of these tags, where an experiment file has them."""
    variant: str | Sequence[str]
    agent: str | Sequence[str]
    """Agents by name, each a variant, instead of the experiment's: `oracle`, `noop`, `codex`."""
    set: Mapping[str, Any]
    """Fields of an experiment file by their path, such as `{"breaker.after": 3}`."""
    budget: Mapping[str, float]
    """What the whole run may use, such as `{"cost_usd": 5, "tokens": 1_000_000}`."""
    env: Mapping[str, str]
    """Variables for what runs in sandboxes."""
    fail_on_error: bool | float
    continue_on_fail: bool
    retry_on_error: int
    replay: str | Path
    """A run whose recorded calls answer in the place of models' providers: a path or an id."""
    replay_mode: Literal["strict", "reuse"]
    keep_workspace: Literal["failed", "always", "never"]
    env_file: str | Path
    grace: float
    keep_sandbox: Literal["failed", "never"]
    """Whether containers of samples that did not pass are left for a look."""
    reuse_edited: bool
    """Where results are taken over: also those of code that was edited since. Kept in the run."""
    model_base_url: str
    task_args: Mapping[str, Any]
    """Arguments of `@task` functions."""
    solver: str
    solver_args: Mapping[str, Any]
    """Arguments of `solver`."""
    scorer: str
    max_connections: int
    max_retries: int
    timeout: float
    time_limit: float
    working_limit: float
    message_limit: int
    token_limit: int
    cost_limit: float
    display: bool | Literal["full", "conversation", "rich", "plain", "log", "none"]
    """Show progress and how it ended; by default where standard error is a terminal."""
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
    extra: Mapping[str, Any]

class EvalOptions(EvalSetOptions, total=False):
    """Options of a run, with where it is kept."""

    run_id: str
    log_dir: str | Path

class NewEvalOptions(EvalOptions, total=False):
    """Options of a run that is no retry."""

    reuse: str | Path
    """Take over good results of the runs in this directory."""
