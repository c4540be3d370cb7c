"""Harbor's tasks as an experiment: one task folder, or a folder of them.

Rules: a task's own words decide about its image, limits, networks and times. Work lies in the image's own
folder, and the tests judge it there, as Harbor's do: so a changed system is flagged and judged in place.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from labrunner.errors import InputError
from labrunner.experiment.sandbox_kinds import DOCKER
from labrunner.experiment.sources.importers import Imported
from labrunner.interop.importers.foreign_values import escape
from labrunner.interop.importers.harbor_task import FILE, SETUP_S, HarborTask, read_harbor_task
from labrunner.interop.importers.shims import read_shim

LOGS: Final = ("/logs/agent", "/logs/verifier", "/logs/artifacts")
_SIGNS: Final = ("instruction.md", "environment", "tests")
"""What a folder that is meant to be a task has."""


def import_harbor(path: Path) -> Imported:
    """Make an experiment of a task folder, or of a folder of them."""
    folders = list(find_tasks(path))
    tasks = [read_harbor_task(folder) for folder in folders]
    rows = [place_row(task, folder.relative_to(path)) for task, folder in zip(tasks, folders, strict=True)]
    return Imported(
        fields={**experiment_fields(path.resolve().name), "tasks": rows},
        folder=path,
        refused={task.id: task.refused for task in tasks},
    )


def find_tasks(path: Path) -> Iterator[Path]:
    """Task folders of a path, in the order of their names. Raises InputError."""
    if path.is_file():
        raise InputError(
            str(path), f"is a file; name the folder of a task, with a {FILE}, or a folder of them"
        )
    if (path / FILE).is_file():
        yield path
        return
    inner = sorted(each for each in path.iterdir() if each.is_dir() and not each.name.startswith("."))
    found = [
        each for each in inner if (each / FILE).is_file() or any((each / sign).exists() for sign in _SIGNS)
    ]
    if not found:
        below = [each.name for each in inner if any(each.glob(f"*/{FILE}"))]
        hint = f"; there are tasks in {below[0]}: name that" if below else ""
        raise InputError(str(path), f"neither it nor a folder in it has a {FILE}{hint}")
    yield from found


def experiment_fields(name: str) -> dict[str, Any]:
    """What holds for every task of Harbor's."""
    return {
        "name": name,
        "sandbox": {"kind": DOCKER},
        "setup": {
            "command": ["sh", "-c", escape(read_shim("harbor_setup"))],
            "user": "root",
            "timeout_s": SETUP_S,
        },
        "grader": {
            "command": ["sh", "-c", escape(read_shim("harbor_grade"))],
            "user": "root",
            "retries": 0,
            "metric": {"name": "reward"},
        },
        "on_system_change": "flag",
        "collect": list(LOGS),
    }


def place_row(task: HarborTask, place: Path) -> dict[str, Any]:
    """A task's row, with paths that go through its place; its id alone where it is refused."""
    if task.refused:
        return {"id": task.id}
    row = dict(task.row)
    for field in ("build", "grader", "solution"):
        if field in row:
            row[field] = _placed(row[field], place)
    return row


def _placed(value: Any, folder: Path) -> Any:  # noqa: ANN401 - a path, or a part with one
    if isinstance(value, dict):
        return {**value, "dir": str(folder / value["dir"])}
    return str(folder / value)
