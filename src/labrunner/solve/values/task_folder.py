"""Where relative paths of a task start from: the folder of the file that its `@task` function stands in."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

_folder: ContextVar[Path | None] = ContextVar("labrunner_task_folder", default=None)


def resolve_path(text: str) -> Path:
    """A path as the author of the task being made means it."""
    path = Path(text).expanduser()
    folder = _folder.get()
    return path if path.is_absolute() or folder is None else folder / path


@contextmanager
def inside(folder: Path | None) -> Iterator[None]:
    """Start relative paths from a folder."""
    token = _folder.set(folder if folder is not None else _folder.get())
    try:
        yield
    finally:
        _folder.reset(token)
