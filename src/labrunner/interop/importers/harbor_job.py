"""A Harbor job file as an experiment: agents are variants, attempts replications, tasks those of folders.

Rules: what says how Harbor itself prints and keeps things has no meaning here and is taken as read. Anything
else that is not mapped is refused by file and field. Paths start from the job file's folder.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final, TypeGuard

from labrunner.errors import InputError, InputErrors
from labrunner.experiment.authoring.document import read_document
from labrunner.experiment.authoring.problems import found
from labrunner.experiment.sources.importers import Imported
from labrunner.interop.importers.foreign_values import ForeignTable, Refusals, refuse_unknown, take_variables
from labrunner.interop.importers.harbor import experiment_fields, find_tasks, place_row
from labrunner.interop.importers.harbor_task import NO_LIMIT_S, read_harbor_task

SAYS_NOTHING: Final = ("jobs_dir", "debug", "quiet", "skip_credential_checks")
TIMES: Final = ("timeout_multiplier", "agent_timeout_multiplier", "verifier_timeout_multiplier")
BUILD: Final = "environment_build_timeout_multiplier"
MAPPED: Final = (
    "job_name",
    "n_attempts",
    "n_concurrent_trials",
    "retry",
    "agents",
    "datasets",
    "tasks",
    *TIMES,
    BUILD,
)
REFUSED: Final[Mapping[str, str]] = {
    "install_only": "agents are installed by `lab agents install`",
    "agent_setup_timeout_multiplier": "agents are installed before a run, not in it",
    "metrics": "figures are those of `lab show`",
    "user_agent": "a simulated user is not built",
    "artifacts": "write them into the tasks, or import the job and write `collect`",
    "extra_instruction_paths": "instructions are the tasks' own",
    "extra_instructions": "instructions are the tasks' own",
    "source_jobs": "results of earlier runs are taken over by `lab retry`",
    "plugins": "plugins are not built",
    "orchestrator": "is Harbor's old form; write n_concurrent_trials",
}
_PARTS: Final[Mapping[str, Mapping[str, object]]] = {
    "environment": {
        "type": "docker",
        "force_build": False,
        "delete": True,
        "stream": False,
        "cpu_enforcement_policy": "auto",
        "memory_enforcement_policy": "auto",
    },
    "verifier": {"disable": False},
}
"""Parts of a job of which only this can be had: what Harbor writes where nobody said anything."""
_RETRIES: Final[Mapping[str, object]] = {
    "wait_multiplier": 1.0,
    "min_wait_sec": 1.0,
    "max_wait_sec": 60.0,
    "exclude_exceptions": (
        "AgentAuthenticationError",
        "AgentSafetyRefusalError",
        "AgentTimeoutError",
        "ApiUsageLimitError",
        "ModelNotFoundError",
        "RewardFileEmptyError",
        "RewardFileNotFoundError",
        "UnsupportedModelParametersError",
        "VerifierOutputParseError",
        "VerifierTimeoutError",
    ),
}
"""The same of `retry`, which means nothing here: what is tried again follows from an error's cause."""
_DIALECTS: Final = {"anthropic": "anthropic", "openai": "openai", "gemini": "gemini", "google": "gemini"}
_KEYS: Final = {"anthropic": "ANTHROPIC_API_KEY", "openai": "OPENAI_API_KEY", "gemini": "GEMINI_API_KEY"}
_NAMES: Final = {"nop": "noop", "qwen-coder": "qwen-code"}
"""Agents that are called otherwise here."""


def import_harbor_job(path: Path) -> Imported:
    """Make an experiment of a job file. Raises InputError, InputErrors."""
    if not path.is_file():
        raise InputError(str(path), "is no file; name a job file of Harbor's, YAML or JSON")
    values = read_document(path, "a job is a map of fields").data
    refusals = Refusals(file=path)
    job = ForeignTable(values=values, refusals=refusals)
    refuse_unknown(job, (*MAPPED, *SAYS_NOTHING, *REFUSED, *_PARTS), "a job of Harbor's")
    _refuse_rest(job)
    variants, models = _agents(job)
    folders = list(_folders(job, path.parent))
    times = _multipliers(job)
    fields = {
        **experiment_fields(job.text("job_name") or path.stem),
        "variants": variants,
        **({"models": models} if models else {}),
        "replications": job.count("n_attempts") or 1,
        "max_concurrency": job.count("n_concurrent_trials") or 4,
        "retry_on_error": _retries(job),
    }
    if refusals.noted:
        raise refusals.noted[0] if len(refusals.noted) == 1 else InputErrors(refusals.noted)
    tasks = [read_harbor_task(folder) for folder in folders]
    rows = [
        _stretched(place_row(task, folder.resolve()), times)
        for task, folder in zip(tasks, folders, strict=True)
    ]
    return Imported(
        fields={**fields, "tasks": rows},
        folder=path.parent,
        refused={task.id: task.refused for task in tasks},
    )


def _refuse_rest(job: ForeignTable) -> None:
    for name, problem in REFUSED.items():
        value = job.values.get(name)
        is_neutral = name.endswith("_multiplier") and _is_same(value, 1)
        if not _says_nothing(value) and not is_neutral:
            job.refuse(name, problem)
    for part, allowed in _PARTS.items():
        table = job.below(part)
        for name, value in table.values.items():
            if value not in (None, [], {}) and not _is_same(value, allowed.get(name)):
                table.refuse(name, f"{found(value)} can't be had here")


def _says_nothing(value: object) -> bool:
    return value is None or value is False or value in ([], {})


def _is_same(value: object, wanted: object) -> bool:
    """Whether a value is the wanted one, where `true` is no 1 and `false` no 0."""
    return value == wanted and isinstance(value, bool) == isinstance(wanted, bool)


def _retries(job: ForeignTable) -> int:
    retry = job.below("retry")
    for name, value in retry.values.items():
        own = tuple(sorted(value)) if _is_texts(value) else value
        if name != "max_retries" and value not in (None, [], {}) and not _is_same(own, _RETRIES.get(name)):
            retry.refuse(name, "what is tried again, and after how long, follows from the cause of an error")
    return 0 if _is_same(retry.values.get("max_retries"), 0) else retry.count("max_retries") or 0


def _multipliers(job: ForeignTable) -> dict[str, float]:
    """By what the times of agents, graders and builds are multiplied."""
    every = job.amount("timeout_multiplier") or 1.0
    names = {"agent": "agent_timeout_multiplier", "grader": "verifier_timeout_multiplier", "build": BUILD}
    return {phase: job.amount(name) or every for phase, name in names.items()}


def _stretched(row: dict[str, Any], times: Mapping[str, float]) -> dict[str, Any]:
    """A task whose times are multiplied; no limit stays none."""
    if set(row) == {"id"}:
        return row
    limit_s = row["timeout_s"]
    grader = {**row["grader"], "timeout_s": row["grader"]["timeout_s"] * times["grader"]}
    agent_s = limit_s if limit_s == NO_LIMIT_S else limit_s * times["agent"]
    build_s = row["build_timeout_s"] * times["build"]
    return {**row, "timeout_s": agent_s, "grader": grader, "build_timeout_s": build_s}


def _agents(job: ForeignTable) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    variants: dict[str, dict[str, Any]] = {}
    models: dict[str, Any] = {}
    for position, given in enumerate(_maps(job, "agents") or [{"name": "oracle"}]):
        table = ForeignTable(values=given, refusals=job.refusals, name=f"agents.{position}")
        for key, value in given.items():
            if key not in {"name", "model_name", "env"} and not _says_nothing(value):
                table.refuse(
                    key, "can't be told to an agent by name; write an agent's file, and a variant of your own"
                )
        name = table.text("name")
        if name is None:
            table.refuse("name", "is missing; agents by import path are not built")
            continue
        agent: dict[str, Any] = {"use": _NAMES.get(name, name)}
        secrets: list[str] = []
        env = take_variables(table, "env", secrets)
        agent |= {"env": env} if env else {}
        agent |= {"secrets": secrets} if secrets else {}
        model = table.text("model_name")
        if model is not None:
            agent["model"] = _model(table, model, models)
        label = name if model is None else f"{name}-{model.replace('/', '-')}"
        if label in variants:
            table.refuse("name", f"there is another agent {label!r}")
        variants[label] = {"id": label, "agent": agent}
    return list(variants.values()), models


def _model(table: ForeignTable, model: str, models: dict[str, Any]) -> str:
    """A model as `ENTRY/MODEL`; its provider becomes an entry of `models`."""
    provider, _, name = model.partition("/")
    dialect = _DIALECTS.get(provider)
    if not name or dialect is None:
        table.refuse(
            "model_name", f"must be one of {', '.join(_DIALECTS)}, then / and a name, found {model!r}"
        )
        return model
    models[provider] = {"dialect": dialect, "key": _KEYS[dialect]}
    return f"{provider}/{name}"


def _folders(job: ForeignTable, base: Path) -> Iterator[Path]:
    """Task folders that a job names."""
    for position, given in enumerate(_maps(job, "datasets")):
        table = ForeignTable(values=given, refusals=job.refusals, name=f"datasets.{position}")
        known = ("path", "task_names", "exclude_task_names", "n_tasks")
        refuse_unknown(_spoken(table), known, "what is read of a data set here")
        place = _place(table, base)
        if place is not None:
            wanted, unwanted = table.texts("task_names") or ["*"], table.texts("exclude_task_names")
            folders = [each for each in find_tasks(place) if _is_taken(each.name, wanted, unwanted)]
            yield from folders[: table.count("n_tasks")]
    for position, given in enumerate(_maps(job, "tasks")):
        table = ForeignTable(values=given, refusals=job.refusals, name=f"tasks.{position}")
        refuse_unknown(_spoken(table), ("path",), "what is read of a task here")
        place = _place(table, base)
        if place is not None:
            yield place


def _spoken(table: ForeignTable) -> ForeignTable:
    """Without fields that say nothing."""
    values = {name: value for name, value in table.values.items() if not _says_nothing(value)}
    return replace(table, values=values)


def _is_texts(value: object) -> TypeGuard[list[str]]:
    return isinstance(value, list) and all(isinstance(each, str) for each in value)


def _place(table: ForeignTable, base: Path) -> Path | None:
    text = table.text("path")
    if text is None:
        table.refuse(
            "path", "is missing; what lies in a registry, a hub or a repository has to be downloaded first"
        )
        return None
    if not (base / text).is_dir():
        table.refuse("path", f"there is no folder '{base / text}'")
        return None
    return base / text


def _is_taken(name: str, wanted: Sequence[str], unwanted: Sequence[str]) -> bool:
    is_wanted = any(fnmatchcase(name, pattern) for pattern in wanted)
    return is_wanted and not any(fnmatchcase(name, pattern) for pattern in unwanted)


def _maps(job: ForeignTable, name: str) -> list[dict[str, Any]]:
    given = job.values.get(name) or []
    if isinstance(given, list) and all(isinstance(each, dict) for each in given):
        return given
    job.refuse(name, "must be a list of maps")
    return []
