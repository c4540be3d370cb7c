"""Which modules of its own project a Python task is made of, each with the digest of its code.

Rules: a module counts if it lies in the project's folder (the nearest one above the task's file with a mark
such as `pyproject.toml` or `.git`, else the file's own) and is reached by imports: those that stand in the
code, also inside functions, and those that happened while the task was loaded. Installed packages and the
standard library don't count. What counts is the code that this process has loaded: a file that was edited
since, and not loaded anew, is what it was.
"""

import contextlib
import functools
import importlib
import inspect
import logging
import sys
import sysconfig
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any, Final
from weakref import WeakKeyDictionary

from labrunner.solve.resolving.syntax import Code, Import, read_code

MARKS: Final = ("pyproject.toml", "setup.py", "setup.cfg", ".git", ".hg")
_INSTALLED: Final = frozenset({"site-packages", "dist-packages"})
_NOT_OURS: Final = tuple(
    {Path(sysconfig.get_paths()[name]).resolve() for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    | {Path(__file__).resolve().parents[2]}
)
_loaded: Final[WeakKeyDictionary[ModuleType, tuple[ModuleSpec | None, Code]]] = WeakKeyDictionary()
"""The code of modules as it was loaded; reloading gives a module a new spec."""
_log: Final = logging.getLogger(__name__)
_happened: Final[defaultdict[str, set[str]]] = defaultdict(set)
"""Imports that were seen to happen, by the file that made them."""


@dataclass(frozen=True, slots=True)
class CodePart:
    """A module that a task is made of."""

    name: str
    file: Path


def find_project(file: Path) -> Path:
    """The folder of the project that a file belongs to."""
    marked = (folder for folder in file.parents if any((folder / mark).exists() for mark in MARKS))
    return next(marked, file.parent)


def read_part(part: CodePart) -> Code:
    """The code of a module: as this process has loaded it, else as it lies there."""
    module = sys.modules.get(part.name)
    if module is None or _file_of(module) != part.file:
        return read_code(part.file)
    kept = _loaded.get(module)
    now = read_code(part.file)
    if kept is None or kept[0] is not module.__spec__:
        _loaded[module] = (module.__spec__, now)
        return now
    if now.digest != kept[1].digest:
        _log.warning(
            "%s was edited since this process loaded it, and is used as it was; "
            "to use the edit, start anew or call importlib.reload",
            part.file,
        )
    return kept[1]


def digest_modules(start: CodePart) -> dict[str, str]:
    """Digests of the modules that a task's file leads to inside of its project, by name, without the file."""
    importlib.invalidate_caches()
    project = find_project(start.file)
    found: dict[str, str] = {}
    owed = deque([start])
    while owed:
        part = owed.popleft()
        for name in _imported(part):
            file = None if name in found else _locate(name)
            if file is None or file == start.file or not _is_inside(file, project):
                continue
            found[name] = read_part(CodePart(name, file)).digest
            owed.append(CodePart(name, file))
    return dict(sorted(found.items()))


def find_module_files(names: Iterable[str]) -> dict[str, Path]:
    """The files of modules that a task is made of, by name."""
    return {name: file for name in names if (file := _locate(name)) is not None}


def find_part(call: Callable[..., Any]) -> CodePart | None:
    """The module that somebody's function stands in; None for ours, installed ones, and notebooks."""
    while isinstance(call, functools.partial):
        call = call.func
    name = getattr(call, "__module__", None)
    module = sys.modules.get(name) if isinstance(name, str) else None
    file = _file_of(module) if module is not None else None
    return CodePart(str(name), file) if file is not None and _is_somebodys(str(file)) else None


@contextlib.contextmanager
def watching_imports(file: Path) -> Iterator[None]:
    """Notice which modules are loaded meanwhile, and by whom; `file` is the task's."""
    before, witness = set(sys.modules), _Witness()
    sys.meta_path.insert(0, witness)
    try:
        yield
    finally:
        sys.meta_path.remove(witness)
        _happened[str(file)] |= sys.modules.keys() - before


class _Witness:
    """Finds no module, but sees who looked for one."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> None:
        del path, target
        frame: FrameType | None = inspect.currentframe()
        while frame is not None:
            file = frame.f_globals.get("__file__")
            if isinstance(file, str) and _is_somebodys(file):
                _happened[file].add(name)
                return
            frame = frame.f_back


def _imported(part: CodePart) -> Iterator[str]:
    """Absolute names of everything that a module may have imported, packages before what they hold."""
    for each in read_part(part).imports:
        yield from _names(each, _package_of(part))
    yield from sorted(_happened.get(str(part.file), ()))


def _names(each: Import, package: str) -> Iterator[str]:
    base = each.module
    if each.level:
        parents = package.split(".") if package else []
        kept = parents[: len(parents) - each.level + 1]
        base = ".".join([*kept, *([each.module] if each.module else [])])
    words = base.split(".") if base else []
    yield from (".".join(words[:length]) for length in range(1, len(words) + 1))
    yield from (f"{base}.{name}" for name in each.names if base and name != "*")


def _package_of(part: CodePart) -> str:
    module = sys.modules.get(part.name)
    if module is not None and _file_of(module) == part.file and module.__package__ is not None:
        return module.__package__
    return part.name if part.file.name == "__init__.py" else part.name.rpartition(".")[0]


def _locate(name: str) -> Path | None:
    """The file of a module, loaded or not; nothing is imported to find it."""
    module = sys.modules.get(name)
    if module is not None:
        return _file_of(module)
    spec = _find_spec(name)
    return Path(spec.origin).absolute() if spec is not None and spec.has_location and spec.origin else None


def _find_spec(name: str) -> ModuleSpec | None:
    parent = name.rpartition(".")[0]
    path: Iterable[str] | None = None
    if parent:
        module = sys.modules.get(parent)
        holder = module.__spec__ if module is not None else _find_spec(parent)
        path = holder.submodule_search_locations if holder is not None else None
        if path is None:
            return None
    where = list(path) if path is not None else None
    found = (finder.find_spec(name, where, None) for finder in sys.meta_path)
    return next((spec for spec in found if spec is not None), None)


def _file_of(module: ModuleType) -> Path | None:
    file = getattr(module, "__file__", None)
    return Path(file).absolute() if isinstance(file, str) else None


def _is_inside(file: Path, project: Path) -> bool:
    return _is_somebodys(str(file)) and (
        file.is_relative_to(project) or file.resolve().is_relative_to(project)
    )


@functools.cache
def _is_somebodys(file: str) -> bool:
    """Whether a file is neither ours nor installed nor Python's own."""
    path = Path(file)
    if _INSTALLED & set(path.parts) or not path.is_file():
        return False
    place = path.resolve()
    return not any(place.is_relative_to(folder) for folder in _NOT_OURS)
