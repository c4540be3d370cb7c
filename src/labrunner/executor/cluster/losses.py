"""Whether a trial is at fault that loses its node again and again. Pure.

Rules: what ends its node each time must not take the whole cluster with it; nodes that end by themselves are
nobody's fault. Whether it may be chance depends on how many nodes there are: of two, every other loss hits
whoever is there; of a hundred, the same trial three times in a row is hardly hit by chance.
"""

from dataclasses import dataclass, field
from typing import Final

FEWEST: Final = 3
"""Fewer losses in a row are nobody's fault, on however many nodes."""
MOST: Final = 10
"""So many are a trial's own, on however few."""
UNLIKELY: Final = 10_000
"""One in so many is no chance."""


@dataclass(slots=True)
class _LossRow:
    """Losses of one trial, one after another."""

    count: int = 0
    odds: int = 1
    """One in so many is the chance that each loss but the first, which is any, hit its node among all."""


@dataclass(slots=True)
class Losses:
    """The losses of one sitting, by trial."""

    _rows: dict[str, _LossRow] = field(default_factory=dict)

    def add(self, trial_id: str, *, nodes: int) -> bool:
        """Note that a trial's node was lost, of so many; whether the trial is at fault."""
        row = self._rows.setdefault(trial_id, _LossRow())
        row.count += 1
        row.odds *= max(1, nodes) if row.count > 1 else 1
        return row.count >= MOST or (row.count >= FEWEST and row.odds >= UNLIKELY)

    def count(self, trial_id: str) -> int:
        """How many nodes a trial has lost in a row."""
        return self._rows.get(trial_id, _LossRow()).count

    def forget(self, trial_id: str) -> None:
        """An attempt of it has come to its end."""
        self._rows.pop(trial_id, None)
