"""A part of an experiment (agent, grader, …) after merging, where each field knows where it was written."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Generic, TypeVar

from labrunner.experiment.authoring.document import FieldPath, Origin
from labrunner.experiment.authoring.part import Part

P = TypeVar("P", bound=Part)


@dataclass(frozen=True, slots=True, kw_only=True)
class Spot:
    """A field of something that an author wrote."""

    origin: Origin
    path: FieldPath

    @property
    def where(self) -> str:
        """File, line and field, for a message."""
        return self.origin.where(self.path)

    @property
    def folder(self) -> Path:
        """What a relative path that stands here starts from."""
        return self.origin.folder(self.path)

    def at(self, *parts: str | int) -> "Spot":
        """Give a field below this one."""
        return Spot(origin=self.origin, path=(*self.path, *parts))


@dataclass(frozen=True, slots=True, kw_only=True)
class Section(Generic[P]):
    """One part, complete; `over` lays another one over it, field by field."""

    part: P
    spot: Spot
    others: Mapping[str, Spot]
    """Fields that were written elsewhere than below `spot`."""
    entries: Mapping[tuple[str, str], Spot] = field(default_factory=dict)
    """Entries of maps that were merged, each with where it was written."""

    @classmethod
    def of(cls, part: P, origin: Origin, *path: str | int) -> "Section[P]":
        """Give a part as it was written, before anything is laid over it."""
        return cls(part=part, spot=Spot(origin=origin, path=path), others={})

    def at(self, field: str) -> Spot:
        """Where a field was written, or would be."""
        return self.others.get(field) or self.spot.at(field)

    def at_entry(self, field: str, key: str) -> Spot:
        """Where an entry of a field that is a map was written."""
        return self.entries.get((field, key)) or self.at(field).at(key)

    def over(self, part: P | None, spot: Spot) -> "Section[P]":
        """Lay the written fields of `part` over this one: maps are merged, lists and values replaced."""
        if part is None or not part.model_fields_set:
            return self
        written = {name: self._merged(name, getattr(part, name)) for name in part.model_fields_set}
        others = {**self.others, **{name: spot.at(name) for name in written}}
        entries = dict(self.entries)
        for name in written:
            entries |= self._find_entries(name, getattr(part, name), spot)
        return Section(
            part=self.part.model_copy(update=written), spot=self.spot, others=others, entries=entries
        )

    def _find_entries(self, name: str, above: object, spot: Spot) -> dict[tuple[str, str], Spot]:
        """Where entries of a map stand, when another one is laid over it."""
        below = getattr(self.part, name)
        found = {(name, key): self.at_entry(name, key) for key in (below if isinstance(below, dict) else ())}
        return found | {(name, key): spot.at(name, key) for key in (above if isinstance(above, dict) else ())}

    def _merged(self, name: str, above: object) -> object:
        below = getattr(self.part, name)
        # A default is not a base: who writes a map of his own means that map.
        if name in self.part.model_fields_set and isinstance(below, dict) and isinstance(above, dict):
            return {**below, **above}
        return above
