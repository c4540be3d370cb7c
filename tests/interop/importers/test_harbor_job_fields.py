"""Every field of Harbor's job files, at any depth: something follows from it, nothing, or it is refused."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pytest

from labrunner.errors import InputError, InputErrors
from labrunner.interop.importers.harbor_job import import_harbor_job
from tests.kit.interop.harbor_tasks import write_task

# Of `JobConfig` and what it holds, in harbor 0.25.0. A dot leads into a map, or into the first of a list.
SCHEMA: Final[Mapping[str, str]] = {
    "": "job_name jobs_dir n_attempts install_only skip_credential_checks timeout_multiplier "
    "agent_timeout_multiplier verifier_timeout_multiplier agent_setup_timeout_multiplier "
    "environment_build_timeout_multiplier debug n_concurrent_trials quiet metrics user_agent artifacts "
    "extra_instruction_paths extra_instructions source_jobs",
    "retry": "max_retries include_exceptions exclude_exceptions wait_multiplier min_wait_sec max_wait_sec",
    "environment": "type import_path force_build delete stream cpu_enforcement_policy "
    "memory_enforcement_policy override_cpus override_memory_mb override_storage_mb override_gpus "
    "override_tpu suppress_override_warnings mounts extra_docker_compose env kwargs extra_allowed_hosts",
    "verifier": "override_timeout_sec max_timeout_sec include_logs exclude_logs env import_path kwargs "
    "disable extra_allowed_hosts",
    "agents": "name import_path model_name base_url model_api_key_name model_api_format skip_model_parsing "
    "n_concurrent concurrency_group skills override_timeout_sec override_setup_timeout_sec max_timeout_sec "
    "resume_trajectory load_trajectory extra_allowed_hosts include_logs exclude_logs kwargs env mcp_servers",
    "datasets": "path name version ref registry_url registry_path repo overwrite download_dir task_names "
    "exclude_task_names n_tasks",
    "tasks": "path git_url git_commit_id name ref overwrite download_dir source",
}
EVERY: Final = [f"{part}.{name}".strip(".") for part, names in SCHEMA.items() for name in names.split()]


MAPPED: Final[Mapping[str, Any]] = {
    "job_name": "nightly",
    "n_attempts": 3,
    "timeout_multiplier": 2,
    "agent_timeout_multiplier": 2,
    "verifier_timeout_multiplier": 2,
    "environment_build_timeout_multiplier": 2,
    "n_concurrent_trials": 7,
    "retry.max_retries": 2,
    "agents.name": "nop",
    "agents.model_name": "openai/gpt-x",
    "agents.env": {"PRICE": "5$"},
    "datasets.path": "other",
    "datasets.task_names": ["a*"],
    "datasets.exclude_task_names": ["a*"],
    "datasets.n_tasks": 1,
    "tasks.path": "other/c",
}
"""What a field may say, from which something follows."""
IDLE: Final[Mapping[str, Any]] = {
    "jobs_dir": "elsewhere",
    "skip_credential_checks": True,
    "debug": True,
    "quiet": True,
}
"""The same of fields that say how Harbor itself prints and keeps things: nothing follows."""
DEFAULTS: Final[Mapping[str, Any]] = {
    "agent_setup_timeout_multiplier": 1.0,
    "install_only": False,
    "retry.wait_multiplier": 1.0,
    "retry.min_wait_sec": 1.0,
    "retry.max_wait_sec": 60.0,
    "environment.type": "docker",
    "environment.force_build": False,
    "environment.delete": True,
    "environment.stream": False,
    "environment.cpu_enforcement_policy": "auto",
    "environment.memory_enforcement_policy": "auto",
    "verifier.disable": False,
    "agents.skip_model_parsing": False,
    "agents.resume_trajectory": False,
    "datasets.overwrite": False,
    "tasks.overwrite": False,
}
"""What Harbor writes down where nobody said anything: nothing follows. Any other value is refused."""
REFUSED: Final = [name for name in EVERY if name not in {*MAPPED, *IDLE}]
SPEAKING: Final[Mapping[str, Any]] = {
    "boolean": True,
    "number": 3,
    "fraction": 2.5,
    "text": "some words",
    "list": ["some words"],
    "map": {"some": "words"},
}
"""Whatever else a field may say."""


def make_job(name: str | None = None, value: object = None) -> dict[str, Any]:
    """A job with one field that says something."""
    part, _, key = (name or "").rpartition(".")
    job: dict[str, Any] = {"agents": [{"name": "codex"}], "datasets": [{"path": "set"}]}
    if part == "tasks":
        job["tasks"] = [{"path": "other/c"}]
    if name is None:
        return job
    if not part:
        job[key] = value
    elif part in {"agents", "datasets", "tasks"}:
        job[part][0][key] = value
    else:
        job[part] = {key: value}
    return job


def read(folder: Path, job: Mapping[str, Any]) -> Mapping[str, Any]:
    """What becomes of a job; the file's own folder is none of it."""
    for name in ("set/a", "set/b", "other/c"):
        if not (folder / name).exists():
            write_task(folder / name)
    (folder / "job.json").write_text(json.dumps(job))
    return import_harbor_job(folder / "job.json").fields


def refusals(folder: Path, job: Mapping[str, Any]) -> list[str]:
    """Which fields of a job are refused."""
    try:
        read(folder, job)
    except InputError as error:
        return [error.where.removeprefix(f"{folder}/job.json: ")]
    except InputErrors as errors:
        return [each.where.removeprefix(f"{folder}/job.json: ") for each in errors.problems]
    return []


@pytest.mark.parametrize("name", MAPPED)
def test_something_follows_from_a_field_that_is_mapped(name: str, tmp_path: Path) -> None:
    assert name in EVERY
    before = make_job("tasks.path", "set/a") if name == "tasks.path" else make_job()
    assert read(tmp_path, make_job(name, MAPPED[name])) != read(tmp_path, before)


@pytest.mark.parametrize("name", [*IDLE, *DEFAULTS])
def test_nothing_follows_from_what_means_nothing_here(name: str, tmp_path: Path) -> None:
    assert name in EVERY
    before = make_job("tasks.path", "other/c") if name.startswith("tasks.") else make_job()
    assert read(tmp_path, make_job(name, {**IDLE, **DEFAULTS}[name])) == read(tmp_path, before)


RIGHTLY_NOTHING = [("datasets.exclude_task_names", ["some words"]), ("datasets.n_tasks", 3)]
"""No task is called so, and there are two."""


def place_of(name: str) -> str:
    """How a field is named in refusals: of lists with the number."""
    part, dot, key = name.rpartition(".")
    return f"{part}.0.{key}" if part in {"agents", "datasets", "tasks"} else f"{part}{dot}{key}"


@pytest.mark.parametrize("name", MAPPED)
def test_what_a_mapped_field_can_not_mean_is_refused_by_its_name(name: str, tmp_path: Path) -> None:
    before = read(tmp_path, make_job("tasks.path", "set/a") if name == "tasks.path" else make_job())
    for value in SPEAKING.values():
        refused = refusals(tmp_path, make_job(name, value))
        assert all(f"{each}.".startswith(f"{place_of(name)}.") for each in refused), (value, refused)
        is_same = not refused and read(tmp_path, make_job(name, value)) == before
        assert is_same == ((name, value) in RIGHTLY_NOTHING), value


@pytest.mark.parametrize("name", REFUSED)
def test_whatever_else_a_field_says_is_refused_by_its_name(name: str, tmp_path: Path) -> None:
    place = place_of(name)
    for value in SPEAKING.values():
        if value != DEFAULTS.get(name) or isinstance(value, bool) != isinstance(DEFAULTS[name], bool):
            assert refusals(tmp_path, make_job(name, value)) == [place], value


@pytest.mark.parametrize("part", SCHEMA)
def test_a_field_that_the_schema_does_not_have_is_refused_by_its_name(part: str, tmp_path: Path) -> None:
    place = f"{part}.0" if part in {"agents", "datasets", "tasks"} else part
    job = make_job(f"{part}.colour".strip("."), "red")
    assert refusals(tmp_path, job) == [f"{place}.colour".strip(".")]


def test_a_field_that_says_nothing_changes_nothing(tmp_path: Path) -> None:
    before, with_task = read(tmp_path, make_job()), read(tmp_path, make_job("tasks.path", "other/c"))
    for name in sorted({*EVERY} - {"agents.name", "datasets.path", "tasks.path"}):
        after = read(tmp_path, make_job(name, None))
        assert after == (with_task if name.startswith("tasks.") else before), name
