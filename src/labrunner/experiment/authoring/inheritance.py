"""`extends`: one experiment file over another, field by field.

Rules: maps are merged, lists and scalars replaced. Each field keeps the place it was written at, so relative
paths go on starting from the file that they stand in.
"""

from pathlib import Path
from typing import Any

from labrunner.errors import InputError
from labrunner.experiment.authoring.document import Document, FieldPath, Place, read_document


def read_with_bases(path: Path) -> Document:
    """Read an experiment file and, below it, the chain of files that it extends."""
    own = read_document(path)
    seen = [path.resolve()]
    while (base := own.data.pop("extends", None)) is not None:
        below = _base_path(own, base)
        if below.resolve() in seen:
            chain = " > ".join(each.name for each in [*seen, below])
            raise InputError(own.where(("extends",)), f"the files extend each other in a circle: {chain}")
        seen.append(below.resolve())
        own = lay_over(_read_base(own, below), own)
    return own


def lay_over(base: Document, own: Document) -> Document:
    """Merge a document over its base."""
    places: dict[FieldPath, Place] = {(): own.places[()]}
    data = _merge(base, own, (), places)
    return Document(data=data, places=places)


def _base_path(own: Document, base: object) -> Path:
    if not isinstance(base, str) or not base:
        raise InputError(own.where(("extends",)), "must be the path of one base file, such as base.yaml")
    return own.folder(("extends",)) / base


def _read_base(own: Document, path: Path) -> Document:
    if not path.is_file():
        raise InputError(own.where(("extends",)), f"the base file '{path}' does not exist")
    return read_document(path)


def _merge(base: Document, own: Document, path: FieldPath, places: dict[FieldPath, Place]) -> Any:  # noqa: ANN401
    """Merge the values at `path`, and note the place of everything that is kept."""
    below, above = _at(base.data, path), _at(own.data, path)
    if isinstance(below, dict) and isinstance(above, dict):
        merged = {}
        for key in {**below, **above}:
            at = (*path, key)
            if key in above and key in below:
                places[at] = own.places[at]
                merged[key] = _merge(base, own, at, places)
            else:
                source = own if key in above else base
                _copy_places(source, at, places)
                merged[key] = _at(source.data, at)
        return merged
    _copy_places(own, path, places)
    return above


def _copy_places(source: Document, path: FieldPath, places: dict[FieldPath, Place]) -> None:
    depth = len(path)
    places.update({at: place for at, place in source.places.items() if at[:depth] == path})


def _at(value: Any, path: FieldPath) -> Any:  # noqa: ANN401 - not checked yet
    for part in path:
        value = value[part]
    return value
