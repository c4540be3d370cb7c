"""Which trial of a run somebody means by a word.

Rule: ids go before numbers. A trial's id, then the id of a task that has one trial, then a position in the
schedule; where a word is both of the latter, people are told of the other one.
"""

from dataclasses import dataclass
from typing import Final

import msgspec

from labrunner.errors import InputError
from labrunner.runner.reports.lookup import describe_several
from labrunner.store.layout import RunPaths


@dataclass(frozen=True, slots=True, kw_only=True)
class Meant:
    """What a word means."""

    text: str
    """The trial's id, or the word itself where it names none exactly: it may be a part of one."""
    note: str | None = None
    """What else it could have meant."""


class _NamedSlot(msgspec.Struct):
    schedule_idx: int
    trial_id: str
    task_id: str

    @property
    def names(self) -> tuple[str, str, str]:
        """What it may be called."""
        return self.trial_id, self.task_id, str(self.schedule_idx)


_slots: Final = msgspec.json.Decoder(_NamedSlot)


def find_meant(paths: RunPaths, text: str) -> Meant:
    """Which trial a word means. Raises InputError where it is a task's id and the task has several trials."""
    try:
        with paths.schedule.open("rb") as lines:
            named = [slot for slot in map(_slots.decode, lines) if text in slot.names]
    except (OSError, ValueError):
        return Meant(text=text)  # told by whoever needs the schedule
    if any(slot.trial_id == text for slot in named):
        return Meant(text=text)
    of_task = [slot.trial_id for slot in named if slot.task_id == text]
    in_slot = next((slot.trial_id for slot in named if str(slot.schedule_idx) == text), None)
    if len(of_task) > 1:
        raise InputError("TRIAL", describe_several(text, of_task))
    if not of_task:
        return Meant(text=in_slot or text)
    is_other = in_slot is not None and in_slot != of_task[0]
    note = f"{text} is a task's id; the trial at position {text} of the schedule is {in_slot}"
    return Meant(text=of_task[0], note=note if is_other else None)
