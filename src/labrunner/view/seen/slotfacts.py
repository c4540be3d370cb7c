"""Facts of every slot of a run: an array for each fact, all as long as the schedule.

Rules: a figure that is not there is NaN. Texts stand once each, in lists that arrays point into; the first of
each list is nothing. A slot without a row is `owed`, and so is one that a recovered report has no result of.
"""

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Final, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from labrunner.experiment.resolved import Order
from labrunner.experiment.schedule import Schedule

Figures = npt.NDArray[np.float64]
Counts = npt.NDArray[np.int32]
Codes = npt.NDArray[np.uint8]
Truths = npt.NDArray[np.bool_]
Text = TypeVar("Text", bound=Hashable)

ENDINGS: Final = ("owed", "pass", "fail", "error", "running", "withdrawn")
"""How a slot stands, by its code."""
OWED, PASS, FAIL, ERROR, RUNNING, WITHDRAWN = range(len(ENDINGS))


@dataclass(frozen=True, slots=True, kw_only=True)
class Saying:
    """What is said of a slot's end."""

    cause: str | None = None
    reason: str | None = None
    text: str | None = None
    """What was said of the error, without what differs from trial to trial."""
    ended_by: str | None = None
    flags: tuple[str, ...] = ()


@dataclass(slots=True)
class Interned(Generic[Text]):
    """Texts, once each, by their number."""

    texts: list[Text]
    _places: dict[Text, int] = field(default_factory=dict)

    def place(self, text: Text) -> int:
        """The number of a text."""
        found = self._places.get(text)
        if found is None:
            found = self._places[text] = len(self.texts)
            self.texts.append(text)
        return found


@dataclass(slots=True)
class Columns:
    """One run's slots. What a schedule fixes is there from the beginning."""

    task: Counts
    variant: Counts
    repl: Counts
    grid: Counts
    """Positions in the schedule by task, variant and replication."""
    has_row: Truths
    outcome: Codes
    """How it ended; what is under way or withdrawn is none of an end's business."""
    standing: Codes
    """How it stands."""
    value: Figures
    time_s: Figures
    tokens: Figures
    cost_usd: Figures
    began: Figures
    """Seconds since 1970."""
    ended: Figures
    attempts: Counts
    last: Counts
    """The number of the last attempt."""
    said: Counts
    left: Counts
    is_adopted: Truths
    node: Counts
    """Which node of a cluster carried the last attempt out, by its place in `nodes`."""
    sayings: Interned[Saying] = field(default_factory=lambda: Interned([Saying()]))
    leavings: Interned[tuple[str, ...]] = field(default_factory=lambda: Interned([()]))
    """Paths of the files that last attempts have left."""
    nodes: Interned[str] = field(default_factory=lambda: Interned([""]))

    @classmethod
    def of(cls, schedule: Schedule) -> "Columns":
        """Empty columns for a schedule."""
        size, grid = len(schedule), lay_grid(schedule)
        places = np.empty((3, size), np.int32)
        for axis, each in enumerate(np.indices(grid.shape, np.int32)):
            places[axis][grid] = each
        return cls(
            task=places[0],
            variant=places[1],
            repl=places[2],
            grid=grid,
            has_row=np.zeros(size, np.bool_),
            outcome=np.zeros(size, np.uint8),
            standing=np.zeros(size, np.uint8),
            value=np.full(size, np.nan),
            time_s=np.full(size, np.nan),
            tokens=np.full(size, np.nan),
            cost_usd=np.full(size, np.nan),
            began=np.full(size, np.nan),
            ended=np.full(size, np.nan),
            attempts=np.zeros(size, np.int32),
            last=np.zeros(size, np.int32),
            said=np.zeros(size, np.int32),
            left=np.zeros(size, np.int32),
            is_adopted=np.zeros(size, np.bool_),
            node=np.zeros(size, np.int32),
        )

    def clear(self, chosen: slice | list[int]) -> None:
        """Forget rows."""
        for name in ("has_row", "outcome", "attempts", "last", "said", "left", "is_adopted", "node"):
            getattr(self, name)[chosen] = 0
        for name in FIGURES:
            getattr(self, name)[chosen] = np.nan

    def strength(self) -> Figures:
        """How much of each slot passed; 0 for what did not, and for what has no verdict."""
        partly = (self.outcome == FAIL) & (self.value > 0) & (self.value < 1)
        return np.where(self.outcome == PASS, 1.0, np.where(partly, np.round(self.value, 3), 0.0))


FIGURES: Final = ("value", "time_s", "tokens", "cost_usd", "began", "ended")


def lay_grid(schedule: Schedule) -> Counts:
    """Positions in the schedule by task, variant and replication."""
    shape = (schedule.tasks, schedule.variants, schedule.replications)
    task, variant, repl = np.indices(shape, np.int32)
    if schedule.order is Order.SHUFFLED:
        grid = np.empty(shape, np.int32)
        for slot in schedule:
            grid[slot.task_idx, slot.variant_idx, slot.repl_idx] = slot.schedule_idx
        return grid
    # A position is its digits, each times what it weighs: asked for once, with one digit at a time.
    weights = [
        schedule.index(*digits) if all(d < n for d, n in zip(digits, _counts(schedule), strict=True)) else 0
        for digits in ((1, 0, 0), (0, 1, 0), (0, 0, 1))
    ]
    found: Counts = (variant * weights[0] + task * weights[1] + repl * weights[2]).astype(np.int32)
    return found


def _counts(schedule: Schedule) -> tuple[int, int, int]:
    return (schedule.variants, schedule.tasks, schedule.replications)
