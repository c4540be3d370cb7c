"""One Harbor task folder as a task row: `task.toml`, `instruction.md`, `environment/`, `tests/`, `solution/`.

Rules: every field is mapped exactly or refused by file and field (`harbor_fields`). Files that would change
what happens and can't be had (compose files, trajectories, ignore lists) are refused by name.
"""

import math
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, Final, TypeGuard

from labrunner.errors import InputError
from labrunner.experiment.authoring.problems import found
from labrunner.interop.importers.dockerfile import ImageWords, read_dockerfile
from labrunner.interop.importers.foreign_files import read_foreign, refuse_leaving, tell_unreadable
from labrunner.interop.importers.foreign_values import ForeignTable, Refusals, escape, number, take_variables
from labrunner.interop.importers.harbor_fields import check_fields
from labrunner.interop.importers.harbor_network import find_baseline, find_override
from labrunner.interop.importers.shims import read_shim

FILE: Final = "task.toml"
USER: Final = "LAB_TEST_USER"
"""Tells the grader's script who runs the tests, where it is not the image's own user."""
NO_LIMIT_S: Final = 365 * 24 * 3600.0
"""What stands for no limit at all."""
BUILD_S: Final = 600.0
VERIFIER_S: Final = 600.0
"""Harbor's own defaults."""
SETUP_S: Final = 120.0
_CANARY: Final = re.compile(r"^(<!--.*canary.*-->|#.*canary.*)$", re.IGNORECASE)
_EXACT: Final = 2**53
_SIZES: Final = {"G": 1024.0, "M": 1.0, "K": 1 / 1024}
_OWN_FOLDERS: Final = ("/tests", "/logs", "/agentlab")
_NOT_FOR_GRADERS: Final = ("PYTHON", "LD_", "PYTEST_")
_REFUSED_FILES: Final = {
    "trajectory.json": "an agent that starts with a conversation of before is not built",
    "steps": "tasks of several steps are not built",
    "environment/docker-compose.yaml": "compose files of Harbor's are laid over its own; write a Dockerfile",
    "environment/.dockerignore": "is not obeyed when images are built here; remove what it names",
    "tests/Dockerfile": "a verifier with an image of its own is not built",
    "tests/docker-compose.yaml": "a verifier with containers of its own is not built",
    "tests/.harborignore": "is not obeyed here; remove what it names",
    "solution/.harborignore": "is not obeyed here; remove what it names",
    "tests/test.bat": "Windows is not built",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class HarborTask:
    """A task folder that was read."""

    id: str
    row: Mapping[str, Any]  # a task row, with paths relative to the folder
    refused: tuple[InputError, ...]


def read_harbor_task(folder: Path) -> HarborTask:
    """Read a task folder; what can't be had of it is in `refused`."""
    refusals, name = Refusals(file=folder / FILE), folder.resolve().name
    values = {} if refuse_leaving(folder, refusals) else _read_toml(folder / FILE, refusals)
    table = ForeignTable(values=values, refusals=refusals)
    row = _TaskReading(folder, table).row() if not refusals.noted else {"id": name}
    return HarborTask(id=name, row=row, refused=tuple(refusals.noted))


def _read_toml(path: Path, refusals: Refusals) -> dict[str, Any]:
    try:
        return tomllib.loads(read_foreign(path))
    except tomllib.TOMLDecodeError as error:
        refusals.add("", f"is not valid TOML: {error}")
    except (OSError, UnicodeDecodeError) as error:
        refusals.add("", tell_unreadable(error))
    return {}


class _TaskReading:
    """A task folder that is being read."""

    def __init__(self, folder: Path, table: ForeignTable) -> None:
        self._folder = folder
        self._table = table
        self._refusals = table.refusals
        self._environment = table.below("environment")
        self._verifier = table.below("verifier")
        self._agent = table.below("agent")
        self._image = self._read_image()

    def row(self) -> dict[str, Any]:
        """The task row; what is refused is noted."""
        check_fields(self._table)
        self._check_words()
        self._check_files()
        row = {
            "id": self._folder.resolve().name,
            "prompt": self._prompt(),
            **self._container(),
            "workdir": self._workdir(),
            "resources": self._resources(),
            "env": self._env(),
            "agent": self._agent_part(),
            "timeout_s": self._agent.seconds("timeout_sec") or NO_LIMIT_S,
            "setup": self._setup(),
            "grader": self._grader(),
            "solution": self._solution(),
            "collect": list(self._artifacts()),
            "tags": self._tags(),
            "metadata": self._metadata(),
        }
        return {name: value for name, value in row.items() if value not in (None, {}, [])}

    def _check_words(self) -> None:
        said = "schema_version" if "schema_version" in self._table.values else "version"
        version = self._table.values.get(said, "1.4")
        if not isinstance(version, str) or not re.fullmatch(r"1(\.\d+)?", version):
            self._table.refuse(said, f"schemas 1.x are read, found {found(version)}")
        if str(self._environment.values.get("os", "linux")).lower() != "linux":
            self._environment.refuse("os", "only linux is built")
        mode = self._verifier.values.get("environment_mode")
        if mode not in (None, "shared"):
            told = "a verifier with a container of its own is not built; shared is"
            self._verifier.refuse("environment_mode", f"{told}, found {found(mode)}")

    def _check_files(self) -> None:
        for name, problem in _REFUSED_FILES.items():
            if (self._folder / name).exists():
                self._refusals.of(self._folder / name).add("", problem)
        if not (self._folder / "tests" / "test.sh").is_file():
            self._refusals.of(self._folder / "tests" / "test.sh").add(
                "", "is missing: nothing judges the task"
            )

    def _read_image(self) -> ImageWords:
        path = self._folder / "environment" / "Dockerfile"
        if not path.is_file():
            return ImageWords()
        try:
            return read_dockerfile(path)
        except (OSError, UnicodeDecodeError) as error:
            self._refusals.of(path).add("", tell_unreadable(error))
            return ImageWords()

    def _prompt(self) -> str:
        path = self._folder / "instruction.md"
        try:
            return without_canary(read_foreign(path))
        except (OSError, UnicodeDecodeError) as error:
            self._refusals.of(path).add("", tell_unreadable(error))
        return ""

    def _container(self) -> dict[str, Any]:
        """The image, or what it is built from; what of it does not hold here is refused."""
        limit_s = self._environment.seconds("build_timeout_sec") or BUILD_S
        image = self._environment.text("docker_image")
        dockerfile = self._refusals.of(self._folder / "environment" / "Dockerfile")
        if self._image.entrypoint:
            told = " ".join(self._image.entrypoint)
            dockerfile.add("ENTRYPOINT", f"{told!r} would not be run: `lab` starts its containers itself")
        if self._image.healthcheck is not None:
            dockerfile.add("HEALTHCHECK", "is not awaited here; write [environment.healthcheck]")
        if image is not None:
            self._refuse_loose()
            return {"image": escape(image), "build_timeout_s": limit_s}
        if not dockerfile.file.is_file():
            dockerfile.add("", "is missing, and environment.docker_image names no image")
        if self._image.needs_buildkit is not None:
            told = "takes BuildKit, and images are built here without it"
            dockerfile.add("", f"{self._image.needs_buildkit} {told}: name a built one in docker_image")
        return {"build": "environment", "build_timeout_s": limit_s}

    def _refuse_loose(self) -> None:
        """Refuse files that Harbor puts into the working directory of an image that is there already."""
        folder = self._folder / "environment"
        loose = sorted(folder.iterdir()) if folder.is_dir() else []
        if loose and not (folder / "Dockerfile").is_file():
            told = "would be copied into the container of docker_image, which is not built"
            self._refusals.of(loose[0]).add("", f"{told}; write a Dockerfile, or leave it out")

    def _workdir(self) -> str | None:
        folder = self._environment.text("workdir") or self._image.workdir
        if folder is None:
            told = "the image's working directory is not known: environment/Dockerfile has no WORKDIR"
            self._environment.refuse("workdir", f"{told}; write it here")
            return None
        if "$" in folder or not folder.startswith("/"):
            self._environment.refuse("workdir", f"must be a path from / on, found {folder!r}")
        if any(PurePosixPath(folder).is_relative_to(own) for own in _OWN_FOLDERS):
            self._environment.refuse("workdir", f"{folder} is emptied for the tests; work elsewhere")
        return folder

    def _resources(self) -> dict[str, Any]:
        limits = {
            "cpus": self._environment.amount("cpus"),
            "memory_mb": self._megabytes("memory"),
            "disk_mb": self._megabytes("storage"),
        }
        return {name: value for name, value in limits.items() if value is not None}

    def _megabytes(self, name: str) -> int | None:
        """A size as it is written now, or as it was: `2G`. Both must agree."""
        size = self._environment.count(f"{name}_mb")
        old = self._environment.text(name)
        if old is None:
            return size
        match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([GMK])\s*", old, re.IGNORECASE)
        wanted = float(match[1]) * _SIZES[match[2].upper()] if match is not None else -1.0
        if wanted < 1 or wanted != int(wanted):
            self._environment.refuse(name, f"must be whole MiB such as 2G or 512M, found {old!r}")
        elif size is not None and size != wanted:
            self._environment.refuse(name, f"{old} contradicts {name}_mb = {size}")
        return int(wanted)

    def _env(self) -> dict[str, str]:
        secrets: list[str] = []
        env = take_variables(self._environment, "env", secrets)
        for name in secrets:
            told = "takes a value from this machine, which agents get only as a secret of theirs"
            self._environment.refuse(f"env.{name}", f"{told}: write the value")
        return env

    def _agent_part(self) -> dict[str, Any]:
        network = find_override(self._agent) or find_baseline(self._environment)
        user = self._agent.user("user")
        return {"network": network} if user is None else {"network": network, "user": user}

    def _setup(self) -> dict[str, Any] | None:
        """Harbor's folders for logs, and a loop that waits for a health check; None: only the folders."""
        table = self._environment.below("healthcheck")
        if not table.values:
            return None
        command = table.text("command")
        if command is None:
            table.refuse("command", "is missing")
            return None
        defaults = {
            "interval_sec": 5.0,
            "timeout_sec": 30.0,
            "start_period_sec": 0.0,
            "start_interval_sec": 5.0,
        }
        waits = {}
        for name, default in defaults.items():
            is_zero = table.values.get(name) == 0
            waits[name] = 0.0 if is_zero else (table.seconds(name) or default)
        retries = table.count("retries") or 3
        each_s = waits["interval_sec"] + waits["timeout_sec"]
        limit_s = waits["start_period_sec"] + waits["start_interval_sec"] + retries * each_s
        words = [escape(command), *map(number, waits.values()), str(retries)]
        return {
            "command": [
                "sh",
                "-c",
                escape(read_shim("harbor_setup")),
                "setup",
                *words,
            ],
            "timeout_s": SETUP_S + limit_s,
            "network": find_baseline(self._environment),
        }

    def _grader(self) -> dict[str, Any]:
        secrets: list[str] = []
        env = {
            name: escape(value)
            for name, value in self._image.env.items()
            if name.startswith(_NOT_FOR_GRADERS) and "$" not in value
        }
        env |= take_variables(self._verifier, "env", secrets)
        user = self._verifier.user("user")
        if user is not None:
            env[USER] = escape(user)
        grader = {
            "dir": "tests",
            "timeout_s": self._verifier.seconds("timeout_sec") or VERIFIER_S,
            "network": find_override(self._verifier) or find_baseline(self._environment),
            "env": env,
            "secrets": secrets,
        }
        return {name: value for name, value in grader.items() if value not in ({}, [])}

    def _solution(self) -> dict[str, Any] | None:
        secrets: list[str] = []
        env = take_variables(self._table.below("solution"), "env", secrets)
        for name in secrets:
            self._table.refuse(f"solution.env.{name}", "takes a value from this machine; write the value")
        if not (self._folder / "solution" / "solve.sh").is_file():
            return None
        return {"dir": "solution", "env": env} if env else {"dir": "solution"}

    def _artifacts(self) -> Iterator[str]:
        entries = self._table.values.get("artifacts") or []
        for position, entry in enumerate(entries if isinstance(entries, list) else [entries]):
            name = f"artifacts.{position}"
            path = entry.get("source") if isinstance(entry, dict) else entry
            if not isinstance(path, str) or not path or ".." in PurePosixPath(path).parts:
                self._refusals.add(name, f"must be a path without '..', found {found(path)}")
                continue
            for key, value in entry.items() if isinstance(entry, dict) else ():
                if key != "source" and value not in (None, [], "", "main"):
                    self._refusals.add(
                        f"{name}.{key}", "is not built; paths are collected whole, as they lie"
                    )
            folder = PurePosixPath(self._environment.text("workdir") or self._image.workdir or "/")
            yield str(folder / path)

    def _tags(self) -> list[str]:
        own = self._table.below("metadata").values.get("tags")
        tags = own if _is_texts(own) else []
        return [tag for tag in dict.fromkeys([*tags, *self._table.below("task").texts("keywords")]) if tag]

    def _metadata(self) -> dict[str, Any]:
        written = self._table.below("metadata").values.items()
        free = {name: value for name, value in written if name != "tags" or not _is_texts(value)}
        harbor = {
            "task": {**self._table.below("task").values},
            "source": self._table.values.get("source"),
        }
        told = {name: value for name, value in harbor.items() if value}
        return {name: plain(value) for name, value in {**free, **({"harbor": told} if told else {})}.items()}


def _is_texts(value: object) -> TypeGuard[list[str]]:
    return isinstance(value, list) and all(isinstance(each, str) for each in value)


def plain(value: Any) -> Any:  # noqa: ANN401 - foreign TOML
    """TOML as JSON: dates become text, and so do numbers that JSON can't hold exactly."""
    if isinstance(value, dict):
        return {str(key): plain(each) for key, each in value.items()}
    if isinstance(value, list):
        return [plain(each) for each in value]
    is_number = isinstance(value, int | float) and math.isfinite(value) and abs(value) <= _EXACT
    return value if value is None or is_number or isinstance(value, str | bool) else str(value)


def without_canary(text: str) -> str:
    """An instruction without what Harbor hides of its head: blank lines, and those that mark the text."""
    lines = text.split("\n")
    first = next((at for at, line in enumerate(lines) if not _CANARY.match(line.strip())), len(lines))
    first = next((at for at in range(first, len(lines)) if lines[at].strip()), len(lines))
    return "\n".join(lines[first:])
