"""Tasks of terminal-bench before Harbor: `task.yaml`, a compose file of one service, `run-tests.sh`.

Rules: fields and files are mapped exactly or refused by file and field. What the compose file says of the
harness itself (names of images and containers, folders for logs) has no meaning here and is taken as read.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from labrunner.errors import InputError
from labrunner.experiment.authoring.document import read_document
from labrunner.experiment.authoring.problems import found
from labrunner.experiment.sandbox_kinds import DOCKER
from labrunner.experiment.sources.importers import Imported
from labrunner.interop.importers.dockerfile import ImageWords, read_dockerfile
from labrunner.interop.importers.foreign_files import refuse_leaving, tell_unreadable
from labrunner.interop.importers.foreign_values import ForeignTable, Refusals, escape, refuse_unknown
from labrunner.interop.importers.shims import read_shim
from labrunner.solve.resolving.compose import Surroundings, read_service

FILE: Final = "task.yaml"
AGENT_S, TESTS_S = 360.0, 60.0
"""terminal-bench's own defaults."""
TOLD: Final = (
    "author_name",
    "author_email",
    "difficulty",
    "category",
    "estimated_duration_sec",
    "expert_time_estimate_min",
    "junior_time_estimate_min",
)
"""Fields that are for people."""
MAPPED: Final = (
    *("instruction", "tags", "parser_name", "max_agent_timeout_sec", "max_test_timeout_sec"),
    *("run_tests_in_same_shell", "disable_asciinema"),
    *TOLD,
)
_HARNESS: Final = {
    "${T_BENCH_TEST_DIR}": "/tests",
    "${T_BENCH_CONTAINER_LOGS_PATH}": "/logs",
    "${T_BENCH_CONTAINER_AGENT_LOGS_PATH}": "/agent-logs",
}
"""Variables of compose files, and what they stand for inside."""
_OUTSIDE: Final = "${T_BENCH_TASK"
"""How variables begin that name what the harness has outside: images, containers, folders."""


def import_terminal_bench(path: Path) -> Imported:
    """Make an experiment of a task folder, or of a folder of them."""
    folders = list(_find_tasks(path))
    rows, refused = [], {}
    for folder in folders:
        refusals = Refusals(file=folder / FILE)
        name = folder.resolve().name
        row = _Reading(folder, folder.relative_to(path), refusals).row()
        rows.append({"id": name} if refusals.noted else {"id": name, **row})
        refused[name] = tuple(refusals.noted)
    fields = {
        "name": path.resolve().name,
        "tasks": rows,
        "sandbox": {"kind": DOCKER},
        "setup": {"command": ["mkdir", "-p", "/logs", "/agent-logs"], "user": "root"},
        "grader": {
            "command": ["sh", "-c", escape(read_shim("terminal_bench_grade"))],
            "user": "root",
            "retries": 0,
            "metric": {"name": "resolved", "min": 0, "max": 1},
        },
        "on_system_change": "flag",
        "collect": ["/logs", "/agent-logs"],
    }
    return Imported(fields=fields, folder=path, refused=refused)


def _find_tasks(path: Path) -> Iterator[Path]:
    if path.is_file():
        raise InputError(
            str(path), f"is a file; name the folder of a task, with a {FILE}, or a folder of them"
        )
    if (path / FILE).is_file():
        yield path
        return
    folders = sorted(each for each in path.iterdir() if each.is_dir() and (each / FILE).is_file())
    if not folders:
        raise InputError(str(path), f"neither it nor a folder in it has a {FILE}")
    yield from folders


class _Reading:
    """A task folder that is being read."""

    def __init__(self, folder: Path, place: Path, refusals: Refusals) -> None:
        self._folder = folder
        self._place = place
        self._refusals = refusals

    def row(self) -> dict[str, Any]:
        """The task row; what is refused is noted."""
        if refuse_leaving(self._folder, self._refusals):
            return {}
        try:
            values = read_document(self._folder / FILE, "a task is a map of fields").data
        except InputError as error:
            self._refusals.noted.append(error)
            return {}
        table = ForeignTable(values=values, refusals=self._refusals)
        refuse_unknown(table, MAPPED, "terminal-bench's task.yaml")
        self._check(table)
        around = self._surroundings()
        image = self._image(around)
        limits = {name: around.sandbox[name] for name in _LIMITS if name in around.sandbox}
        network = around.agent.get("network", "full")
        agent = {"network": network, **({"user": around.agent["user"]} if "user" in around.agent else {})}
        row = {
            "prompt": table.text("instruction") or "",
            "build": self._build(around),
            "image": around.sandbox.get("image"),
            "workdir": self._workdir(around, image),
            "resources": limits,
            "env": {name: escape(value) for name, value in around.env.items()},
            "agent": agent,
            "timeout_s": table.seconds("max_agent_timeout_sec") or AGENT_S,
            "grader": {
                "dir": str(self._place),
                "timeout_s": table.seconds("max_test_timeout_sec") or TESTS_S,
                "network": network,
            },
            "solution": self._solution(),
            "tags": table.texts("tags"),
            "metadata": {name: values[name] for name in TOLD if values.get(name) is not None},
        }
        return {name: value for name, value in row.items() if value not in (None, {}, [])}

    def _check(self, table: ForeignTable) -> None:
        if not table.has("instruction"):
            table.refuse("instruction", "is missing")
        if table.values.get("parser_name", "pytest") != "pytest":
            told = f"only pytest's summary is read, found {found(table.values['parser_name'])}"
            table.refuse("parser_name", told)
        if table.values.get("run_tests_in_same_shell"):
            table.refuse(
                "run_tests_in_same_shell", "the agent's shell is gone when tests begin: that is the barrier"
            )
        for name, problem in _REFUSED_FILES.items():
            if (self._folder / name).exists():
                self._refusals.of(self._folder / name).add("", problem)
        if not (self._folder / "run-tests.sh").is_file():
            self._refusals.of(self._folder / "run-tests.sh").add("", "is missing: nothing judges the task")

    def _surroundings(self) -> Surroundings:
        """What the compose file describes, without what is the harness's own."""
        path = self._folder / "docker-compose.yaml"
        if not path.is_file():
            self._refusals.of(path).add("", "is missing")
            return Surroundings(sandbox={})
        try:
            return read_service(path, _without_harness(read_document(path, "a map of services").data))
        except InputError as error:
            self._refusals.noted.append(error)
            return Surroundings(sandbox={})

    def _build(self, around: Surroundings) -> str | None:
        """The folder that the image is built from, as the experiment names it."""
        given = around.sandbox.get("build")
        if given is None:
            return None
        if not Path(given).resolve().is_relative_to(self._folder.resolve()):
            file = self._refusals.of(self._folder / "docker-compose.yaml")
            file.add("services: build.context", "leads out of the task's folder")
            return None
        return str(self._place / Path(given).resolve().relative_to(self._folder.resolve()))

    def _image(self, around: Surroundings) -> ImageWords | None:
        """What the Dockerfile says, if there is one; what of it does not hold here is refused."""
        dockerfile = self._dockerfile(around)
        told = self._refusals.of(dockerfile)
        if not dockerfile.is_file():
            return None
        try:
            words = read_dockerfile(dockerfile)
        except (OSError, UnicodeDecodeError) as error:
            told.add("", tell_unreadable(error))
            return None
        if words.entrypoint:
            told.add("ENTRYPOINT", "would not be run: `lab` starts its containers itself")
        if words.healthcheck is not None:
            told.add("HEALTHCHECK", "is not run here; leave it out")
        if words.needs_buildkit is not None:
            told.add("", f"{words.needs_buildkit} takes BuildKit, and images are built here without it")
        return words

    def _workdir(self, around: Surroundings, image: ImageWords | None) -> str | None:
        if "workdir" in around.sandbox:
            return str(around.sandbox["workdir"])
        if image is None or image.workdir is None or "$" in image.workdir:
            told = self._refusals.of(self._dockerfile(around))
            told.add("WORKDIR", "is missing, so it is not known where agents work")
            return None
        return image.workdir

    def _dockerfile(self, around: Surroundings) -> Path:
        return Path(around.sandbox.get("build", self._folder)) / "Dockerfile"

    def _solution(self) -> dict[str, Any] | None:
        if not (self._folder / "solution.sh").is_file():
            return None
        return {"dir": str(self._place), "command": ["bash", "$agent_dir/solution.sh"]}


_LIMITS: Final = ("cpus", "memory_mb", "pids")
_REFUSED_FILES: Final = {
    "solution.yaml": "keystrokes are not played; write a solution.sh",
    ".dockerignore": "is not obeyed when images are built here; remove what it names",
}


def _without_harness(data: dict[str, Any]) -> dict[str, Any]:
    """A compose file without what names things of the harness outside of the container."""
    services = data.get("services")
    if not isinstance(services, dict):
        return data
    return {**data, "services": {name: _cleaned(service) for name, service in services.items()}}


def _cleaned(service: Any) -> Any:  # noqa: ANN401 - foreign YAML
    if not isinstance(service, dict):
        return service
    kept = {}
    for name, value in service.items():
        if isinstance(value, str) and value.startswith(_OUTSIDE):
            continue
        own = _without_logs(value) if name == "volumes" and isinstance(value, list) else value
        if own != [] or name != "volumes":
            kept[name] = _filled(own)
    return kept


def _without_logs(volumes: list[Any]) -> list[Any]:
    return [each for each in volumes if not str(each).startswith(_OUTSIDE)]


def _filled(value: Any) -> Any:  # noqa: ANN401 - foreign YAML
    if isinstance(value, str):
        for name, inside in _HARNESS.items():
            value = value.replace(name, inside)
        return value
    if isinstance(value, list):
        return [_filled(each) for each in value]
    if isinstance(value, dict):
        return {name: _filled(each) for name, each in value.items()}
    return value
