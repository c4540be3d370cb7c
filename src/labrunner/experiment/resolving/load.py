"""Loads an experiment file: the one way from what a person wrote to an `Experiment`."""

from pathlib import Path
from typing import Final

from labrunner.experiment.authoring.document import Document
from labrunner.experiment.authoring.inheritance import read_with_bases
from labrunner.experiment.options.overrides import Overrides
from labrunner.experiment.resolved import Experiment
from labrunner.experiment.resolving.overlay import apply_overrides
from labrunner.experiment.resolving.resolution import resolve
from labrunner.experiment.sources.importers import read_import, split_import

__all__ = ["Overrides", "load", "resolve_document"]

_DEFAULT_NAME: Final = "experiment.yaml"
_NO_OVERRIDES: Final = Overrides()


def load(path: Path, overrides: Overrides = _NO_OVERRIDES, *, needs_agent: bool = True) -> Experiment:
    """Load an experiment file, the `experiment.yaml` of a folder, or what an importer makes of `NAME:PATH`.

    For whoever does not need an agent, nothing stands in the place of one that nobody named.

    Raises:
        InputError, InputErrors: what was written can't be run; the text says where, what and what to try.
    """
    found = split_import(str(path))
    if found is not None:
        name, folder = found
        document, source = read_import(name, folder), f"{name}:{folder.resolve()}"
    else:
        file = path / _DEFAULT_NAME if path.is_dir() else path
        document, source = read_with_bases(file), str(file.resolve())
    return resolve_document(document, overrides, source, needs_agent=needs_agent)


def resolve_document(
    document: Document, overrides: Overrides, source: str, *, needs_agent: bool = True
) -> Experiment:
    """Resolve a document that was read, with options laid over it."""
    return resolve(apply_overrides(document, overrides), overrides, source, needs_agent=needs_agent)
