"""Foreign task folders as experiments: `NAME:PATH` is turned into what an experiment file would say.

What an importer says is resolved as strictly as a file, and its name stands in every message about it.
What can't be had here is refused task by task, so that the others can be chosen.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeAlias, TypeGuard

from labrunner.errors import InputError, InputErrors
from labrunner.experiment.authoring.document import Document, Place
from labrunner.experiment.sources.named import split_name
from labrunner.registry import Registry


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """What an importer makes of a folder."""

    fields: Mapping[str, Any]  # plain values, checked as those of a file are
    """What an experiment file would say; tasks inline, or the path of a task file."""
    folder: Path
    """What relative paths in the fields start from."""
    refused: Mapping[str, Sequence[InputError]] = field(default_factory=dict)
    """Tasks that can't be run here, by their ids, each with all the reasons. Among the tasks they stand
    by their ids alone. A run that asks for one of them is refused."""


Importer: TypeAlias = Callable[[Path], Imported]


def _is_importer(found: object) -> TypeGuard[Importer]:
    return callable(found)


IMPORTERS: Final = Registry(
    group="labrunner.importers",
    noun="importer",
    built_in={
        "harbor": "labrunner.interop.importers.harbor:import_harbor",
        "harbor-job": "labrunner.interop.importers.harbor_job:import_harbor_job",
        "swe-bench": "labrunner.interop.importers.swe_bench:import_swe_bench",
        "terminal-bench": "labrunner.interop.importers.terminal_bench:import_terminal_bench",
    },
    accepts=_is_importer,
    wanted="a function from a Path to an Imported",
)


def split_import(target: str) -> tuple[str, Path] | None:
    """The importer's name and the path in `NAME:PATH`; None for a file, and for one that is there anyway."""
    name, rest = split_name(target) or ("", "")
    return (name, Path(rest)) if rest and not Path(target).exists() else None


def path_of(source: str) -> Path:
    """The file or folder that an experiment came from."""
    found = split_import(source)
    return Path(source) if found is None else found[1]


def is_there(source: str) -> bool:
    """Whether what an experiment came from can still be read: a file, or what was imported."""
    found = split_import(source)
    return Path(source).is_file() if found is None else found[1].exists()


def read_import(name: str, path: Path) -> Document:
    """Import a folder."""
    target = f"{name}:{path}"
    importer = IMPORTERS.find(name, target)
    if not path.exists():
        raise InputError(target, f"there is nothing at {path}")
    imported = _call(importer, name, path)
    if "extends" in imported.fields:
        raise InputError(target, f"the importer {name!r} can't use extends; its fields must be complete")
    place = Place(file=target, line=None, folder=imported.folder)
    refused = {task: tuple(reasons) for task, reasons in imported.refused.items() if reasons}
    return Document(data=dict(imported.fields), places={(): place}, refused=refused)


def _call(importer: Importer, name: str, path: Path) -> Imported:
    try:
        found: object = importer(path)
    except (InputError, InputErrors):
        raise
    except Exception as error:  # another package's code may raise anything
        told = f"the importer {name!r} failed: {type(error).__name__}: {error}"
        raise InputError(f"{name}:{path}", told) from error
    if not isinstance(found, Imported):
        told = f"the importer {name!r} must give an Imported, found a {type(found).__name__}"
        raise InputError(f"{name}:{path}", told)
    return found
