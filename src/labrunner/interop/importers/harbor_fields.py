"""Every field of a Harbor task's `task.toml`, schema 1.x: what becomes of it, or why it can't be had.

Rules: a field that stands in neither table is unknown, and refused. A refused field may stand there as long
as it says nothing: null, false, 0, an empty list or table.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from labrunner.interop.importers.foreign_values import ForeignTable

MAPPED: Final[Mapping[str, str]] = {
    "schema_version": "checked: 1.x",
    "version": "checked: 1.x",
    "source": "metadata.harbor.source",
    "artifacts": "collect",
    "metadata": "metadata; its tags: tags",
    "task": "",
    "task.name": "metadata.harbor.task.name",
    "task.version": "metadata.harbor.task.version",
    "task.description": "metadata.harbor.task.description",
    "task.authors": "metadata.harbor.task.authors",
    "task.keywords": "tags",
    "agent": "",
    "agent.timeout_sec": "timeout_s; without it a year, which stands for no limit",
    "agent.user": "agent.user",
    "agent.network_mode": "agent.network",
    "agent.allowed_hosts": "agent.network.allow",
    "verifier": "",
    "verifier.timeout_sec": "grader.timeout_s",
    "verifier.env": "grader.env; `${NAME}` of the same name: grader.secrets",
    "verifier.user": "who runs test.sh",
    "verifier.environment_mode": "`shared` only",
    "verifier.network_mode": "grader.network",
    "verifier.allowed_hosts": "grader.network.allow",
    "environment": "",
    "environment.build_timeout_sec": "build_timeout_s",
    "environment.docker_image": "image",
    "environment.os": "`linux` only",
    "environment.cpus": "resources.cpus",
    "environment.memory_mb": "resources.memory_mb",
    "environment.memory": "resources.memory_mb",
    "environment.storage_mb": "resources.disk_mb",
    "environment.storage": "resources.disk_mb",
    "environment.env": "env",
    "environment.workdir": "workdir",
    "environment.healthcheck": "a loop in setup",
    "environment.healthcheck.command": "a loop in setup",
    "environment.healthcheck.interval_sec": "a loop in setup",
    "environment.healthcheck.timeout_sec": "a loop in setup",
    "environment.healthcheck.start_period_sec": "a loop in setup",
    "environment.healthcheck.start_interval_sec": "a loop in setup",
    "environment.healthcheck.retries": "a loop in setup",
    "environment.network_mode": "agent.network, grader.network, setup.network",
    "environment.allowed_hosts": "the same",
    "environment.allow_internet": "the same, where there is no network_mode",
    "solution": "",
    "solution.env": "solution.env",
}
"""Fields that are understood, and what they become."""
FREE: Final = frozenset({"metadata", "verifier.env", "environment.env", "solution.env", "task.authors"})
"""Those whose inner names are the author's own."""

_ONE_CONTAINER: Final = "one trial is one container, and a second one is not built"
REFUSED: Final[Mapping[str, str]] = {
    "steps": "tasks of several steps are not built: one agent, one barrier, one grader",
    "multi_step_reward_strategy": "tasks of several steps are not built",
    "verifier.environment": f"a verifier with an environment of its own: {_ONE_CONTAINER}",
    "verifier.collect": "commands between agent and verifier are not built",
    "environment.gpus": "GPUs are not built",
    "environment.gpu_types": "GPUs are not built",
    "environment.tpu": "TPUs are not built",
    "environment.skills_dir": "skills are not handed to agents",
    "environment.mcp_servers": "MCP servers are not handed to agents",
}
"""Fields that can't be had, and why."""


def check_fields(table: ForeignTable) -> None:
    """Refuse every field that is unknown or can't be had."""
    for name, key, inner in _walk(table):
        if name in REFUSED:
            if inner.values[key] not in (None, False, 0, [], {}, ""):
                inner.refuse(key, REFUSED[name])
        elif name not in MAPPED:
            inner.refuse(key, "there is no such field in schema 1.x, so nothing can be made of it")


def _walk(table: ForeignTable) -> Iterator[tuple[str, str, ForeignTable]]:
    """Fields with their full names, down to where they are the author's own."""
    for key, value in table.values.items():
        name = table.at(key)
        yield name, key, table
        if isinstance(value, dict) and name in MAPPED and name not in FREE:
            yield from _walk(ForeignTable(values=value, refusals=table.refusals, name=name))
