"""A compose file with one service as the sandbox that it describes: image, folder, variables, user, limits.

Rules: one trial is one container, so several services are refused. What can't be kept here is refused by file
and field, never passed over; what has no meaning here (a command that only waits, `init`) is taken as read.
A file that says nothing of networks means a container that has one: so does it here.
"""

import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from labrunner.errors import InputError
from labrunner.experiment.authoring.document import read_document

COMPOSE_NAMES: Final = ("compose.yaml", "compose.yml", "docker-compose.yaml", "docker-compose.yml")
_TOP: Final = frozenset({"services", "version", "name"})
_SAYS_NOTHING: Final = frozenset(
    {"init", "x-default", "stdin_open", "tty", "container_name", "stop_grace_period"}
)
_WAITING: Final = re.compile(
    r"((/bin/)?(sh|bash) -c )?(tail (-f|--follow|-F) /dev/null|sleep (infinity|inf|\d+[smhd]?))"
    r"|(/bin/)?(sh|bash)|cat",
    re.ASCII,
)
_SIZE: Final = re.compile(r"(\d+(?:\.\d+)?)\s*([kmgt]?)i?b?", re.IGNORECASE | re.ASCII)
_POWERS: Final = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}
_NETWORKS: Final = {"none": "none", "bridge": "full", "default": "full"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """Where a task's attempts run: parts of an experiment file, as they would be written there."""

    sandbox: Mapping[str, Any]
    agent: Mapping[str, Any] = field(default_factory=dict)
    env: Mapping[str, str] = field(default_factory=dict)
    """For every phase."""


def is_compose(name: str) -> bool:
    """Whether a name can only be that of a compose file."""
    return name.endswith((".yaml", ".yml"))


def read_compose(path: Path) -> Surroundings:
    """Read a compose file. Raises InputError for what can't be had here."""
    return read_service(path, read_document(path).data)


def read_service(path: Path, data: Mapping[str, Any]) -> Surroundings:
    """Understand what a compose file holds. Raises InputError for what can't be had here."""
    for name in data:
        if name not in _TOP and not str(name).startswith("x-"):
            raise InputError(f"{path}: {name}", "can't be had in a sandbox of one container; leave it out")
    services = data.get("services")
    if not isinstance(services, dict) or not services:
        raise InputError(f"{path}: services", "expected a map with one service")
    if len(services) > 1:
        raise InputError(
            f"{path}: services",
            f"has {len(services)} ({', '.join(map(str, services))}); several containers for one trial are "
            "not built: put what the task needs into one image",
        )
    name, service = next(iter(services.items()))
    if not isinstance(service, dict):
        raise InputError(f"{path}: services.{name}", "expected a map")
    return _Service(path, str(name), service).surroundings()


class _Service:
    """One service, taken apart field by field."""

    def __init__(self, path: Path, name: str, fields: Mapping[str, Any]) -> None:
        self._path = path
        self._name = name
        self._fields = fields
        self._readers: Mapping[str, Callable[[str], Iterator[tuple[str, Any]]]] = {
            "image": self._image,
            "build": self._build,
            "command": self._command,
            "entrypoint": self._command,
            "working_dir": self._working_dir,
            "environment": self._environment,
            "user": self._user,
            "mem_limit": self._memory,
            "cpus": self._cpus,
            "pids_limit": self._pids,
            "deploy": self._deploy,
            "network_mode": self._network,
            "read_only": self._read_only,
            "x-local": self._local,
            "pull_policy": self._pull,
        }

    def surroundings(self) -> Surroundings:
        """What the service comes to."""
        found: dict[str, Any] = {"agent.network": "full"}
        for name in self._fields:
            reader = self._readers.get(name)
            if reader is not None:
                found.update(reader(name))
            elif name not in _SAYS_NOTHING and not str(name).startswith("x-"):
                raise self._refuse(name, "can't be had in a sandbox of one container; leave it out")
        if "build" in found:
            found.pop("image", None)
            found.pop("pull", None)
        elif "image" not in found:
            raise InputError(f"{self._path}: services.{self._name}", "names neither an image nor a build")
        agent = {key[6:]: value for key, value in found.items() if key.startswith("agent.")}
        env = found.pop("env", {})
        sandbox = {key: value for key, value in found.items() if not key.startswith("agent.")}
        return Surroundings(sandbox=sandbox, agent=agent, env=env)

    def _image(self, name: str) -> Iterator[tuple[str, Any]]:
        yield "image", self._text(name)

    def _build(self, name: str) -> Iterator[tuple[str, Any]]:
        given = self._fields[name]
        if isinstance(given, dict):
            for inner in given:
                if inner not in {"context", "dockerfile"}:
                    raise self._refuse(f"{name}.{inner}", "is not built; write it into the Dockerfile")
            if given.get("dockerfile", "Dockerfile") not in {"Dockerfile", "./Dockerfile"}:
                raise self._refuse(f"{name}.dockerfile", "must be called Dockerfile")
            given = given.get("context", ".")
        folder = self._path.parent / self._plain(name, given)
        if not folder.is_dir():
            raise self._refuse(name, f"there is no folder '{folder}'")
        yield "build", str(folder)

    def _command(self, name: str) -> Iterator[tuple[str, Any]]:
        given = self._fields[name]
        words = " ".join(map(str, given)) if isinstance(given, list) else str(given or "")
        if words and not _WAITING.fullmatch(words):
            raise self._refuse(
                name,
                f"would start {words!r} beside the agent; only commands that wait are taken: sleep infinity",
            )
        yield from ()

    def _working_dir(self, name: str) -> Iterator[tuple[str, Any]]:
        yield "workdir", self._text(name)

    def _environment(self, name: str) -> Iterator[tuple[str, Any]]:
        given = self._fields[name] or {}
        pairs = (
            given.items() if isinstance(given, dict) else [str(each).partition("=")[::2] for each in given]
        )
        if isinstance(given, list) and not all("=" in str(each) for each in given):
            raise self._refuse(
                name, "a value that comes from this machine can't be repeated; write NAME=VALUE"
            )
        env = {}
        for key, value in pairs:
            if value is None:
                raise self._refuse(
                    f"{name}.{key}", "a value from this machine can't be repeated; write it down"
                )
            word = str(value).lower() if isinstance(value, bool) else str(value)
            env[str(key)] = self._plain(f"{name}.{key}", word)
        yield "env", env

    def _user(self, name: str) -> Iterator[tuple[str, Any]]:
        yield "agent.user", str(self._fields[name])

    def _memory(self, name: str) -> Iterator[tuple[str, Any]]:
        yield "memory_mb", self._megabytes(name, self._fields[name])

    def _cpus(self, name: str) -> Iterator[tuple[str, Any]]:
        yield "cpus", self._number(name, self._fields[name])

    def _pids(self, name: str) -> Iterator[tuple[str, Any]]:
        yield "pids", int(self._number(name, self._fields[name]))

    def _deploy(self, name: str) -> Iterator[tuple[str, Any]]:
        limits = self._only(f"{name}.resources", self._only(name, self._fields[name], "resources"), "limits")
        readers = {"cpus": ("cpus", self._number), "memory": ("memory_mb", self._megabytes)}
        for inner, value in (limits if isinstance(limits, dict) else {}).items():
            where = f"{name}.resources.limits.{inner}"
            if inner == "pids":
                yield "pids", int(self._number(where, value))
            elif inner in readers:
                field_name, read = readers[inner]
                yield field_name, read(where, value)
            else:
                raise self._refuse(where, "can't be limited here; leave it out")

    def _network(self, name: str) -> Iterator[tuple[str, Any]]:
        given = str(self._fields[name])
        if given not in _NETWORKS:
            raise self._refuse(name, f"expected none or bridge, found {given!r}")
        yield "agent.network", _NETWORKS[given]

    def _read_only(self, name: str) -> Iterator[tuple[str, Any]]:
        yield "read_only", self._fields[name]

    def _local(self, name: str) -> Iterator[tuple[str, Any]]:
        if self._fields[name]:
            yield "pull", "never"

    def _pull(self, name: str) -> Iterator[tuple[str, Any]]:
        given = self._fields[name]
        if given not in {"never", "missing", "if_not_present", "build"}:
            raise self._refuse(
                name, f"expected never or missing, found {given!r}: images count by their digest"
            )
        if given == "never":
            yield "pull", "never"

    def _only(self, where: str, given: Any, name: str) -> Any:  # noqa: ANN401 - foreign YAML
        for inner in given if isinstance(given, dict) else ():
            if inner != name:
                raise self._refuse(
                    f"{where}.{inner}", "can't be had in a sandbox of one container; leave it out"
                )
        return given.get(name) if isinstance(given, dict) else None

    def _text(self, name: str) -> str:
        return self._plain(name, self._fields[name])

    def _plain(self, where: str, given: object) -> str:
        """A text that holds no variables of the machine that reads it."""
        if not isinstance(given, str) or not given:
            raise self._refuse(where, f"expected text, found {given!r}")
        if "$" in given.replace("$$", ""):
            raise self._refuse(where, f"{given!r} takes a value from this machine; write it down")
        return given.replace("$$", "$")

    def _number(self, where: str, given: object) -> float:
        try:
            number = float(str(given))
        except ValueError:
            number = math.nan
        if not math.isfinite(number):
            raise self._refuse(where, f"expected a number, found {given!r}")
        return number

    def _megabytes(self, where: str, given: object) -> int:
        found = _SIZE.fullmatch(str(given).strip())
        if found is None:
            raise self._refuse(where, f"expected a size such as 512m or 2gb, found {given!r}")
        size: float = float(found[1]) * 1024 ** _POWERS[found[2].lower()]
        return max(1, round(size / 2**20))

    def _refuse(self, name: str, problem: str) -> InputError:
        return InputError(f"{self._path}: services.{self._name}.{name}", problem)
