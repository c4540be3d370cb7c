"""Finding `@task` functions in Python files, and making their tasks.

A file is loaded with its own folder on the path and as the current folder, as if it were started there.
"""

import contextlib
import hashlib
import importlib.util
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from labrunner.errors import InputError, LabError
from labrunner.solve.resolving.closure import watching_imports
from labrunner.solve.resolving.python_target import split_target
from labrunner.solve.resolving.task import Task, TaskFunction, task_function
from labrunner.solve.values.task_folder import inside

_folders: Final[set[Path]] = set()
"""Folders of task files that this process has loaded."""


def load_tasks(target: str, arguments: Mapping[str, Any] | None = None) -> list[Task]:
    """Make the tasks that a target names: all of a file's, or one of them."""
    file, name = split_target(target)
    path = Path(file)
    functions = find_functions(path)
    chosen = [each for each in functions if name in {None, each.name}]
    if not chosen:
        raise InputError(str(path), f"there is no @task {name!r}; there are: {_names(functions)}")
    return [make_task(function, arguments or {}) for function in chosen]


def find_functions(path: Path) -> list[TaskFunction]:
    """The `@task` functions of a file, in the order in which they stand there."""
    file = path.resolve()
    module = _load(file)
    found = {
        known.name: known
        for value in vars(module).values()
        if (known := task_function(value)) is not None and known.file == str(file)
    }
    if not found:
        raise InputError(str(path), "holds no @task function; put @task above the one that returns your Task")
    return sorted(found.values(), key=lambda known: known.line)


def make_task(function: TaskFunction, arguments: Mapping[str, Any]) -> Task:
    """Make a function's task, in its file's folder."""
    folder = Path(function.file).parent if function.file is not None else Path.cwd()
    watching = watching_imports(Path(function.file)) if function.file else contextlib.nullcontext()
    with _blaming(function.where, f"@task {function.name}"), contextlib.chdir(folder), watching:
        return function.call(**arguments)


def _load(path: Path) -> ModuleType:
    if not path.is_file():
        raise InputError(str(path), "there is no such file")
    mark = hashlib.sha256(str(path).encode()).hexdigest()[:8]
    name = f"labrunner_task_{path.stem}_{mark}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise InputError(str(path), "can't be loaded as Python")
    module = importlib.util.module_from_spec(spec)
    # Classes of the module look their module up here, dataclasses for one.
    sys.modules[name] = module
    _come_first(path.parent)
    with (
        _blaming(str(path), "loading the file"),
        inside(path.parent),
        contextlib.chdir(path.parent),
        watching_imports(path),
    ):
        spec.loader.exec_module(module)
    return module


def _come_first(folder: Path) -> None:
    """Let a file import what lies beside it, not what lay beside another file under the same name."""
    for name, module in list(sys.modules.items()):
        file, top = getattr(module, "__file__", None), name.partition(".")[0]
        if not isinstance(file, str) or not any(Path(file).is_relative_to(each) for each in _folders):
            continue
        here = (folder / f"{top}.py", folder / top)
        if not Path(file).is_relative_to(folder) and any(place.exists() for place in here):
            del sys.modules[name]
    if str(folder) in sys.path:
        sys.path.remove(str(folder))
    sys.path.insert(0, str(folder))
    _folders.add(folder)


@contextlib.contextmanager
def _blaming(where: str, doing: str) -> Iterator[None]:
    """Say where somebody's code failed, in one sentence."""
    try:
        yield
    except InputError as error:
        if "/" in error.where:  # it names a file already, such as the dataset's
            raise
        raise InputError(where, f"{doing}: {error}{_line_of(error, where)}") from error
    except LabError:
        raise
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # `sys.exit` too: it would end everything without a word
        told = f"{doing}: {type(error).__name__}: {error}"
        raise InputError(where, told + _line_of(error, where)) from error


def _line_of(error: BaseException, where: str) -> str:
    trace, line = error.__traceback__, None
    file = where.partition(":")[0]
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == file:
            line = trace.tb_lineno
        trace = trace.tb_next
    return f" (line {line})" if line is not None else ""


def _names(functions: list[TaskFunction]) -> str:
    return ", ".join(each.name for each in functions)
