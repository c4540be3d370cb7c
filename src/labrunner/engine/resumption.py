"""What a run that was cut short still knows about its trials under way, and what is made of each. Pure.

A failed attempt of a trial that was to be tried again stays part of its history. An attempt that was under
way is taken up where its sandbox lives on; else it is cut off: its files stay as evidence, its number is
used again, its slot is owed.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import msgspec

from labrunner.records.completion import Completion
from labrunner.store.attempts import AttemptNote

_decoder = msgspec.json.Decoder(Completion)


@dataclass(frozen=True, slots=True, kw_only=True)
class Resumption:
    """How a sitting goes on."""

    histories: Mapping[int, tuple[Completion, ...]]
    """Failed attempts by slot, in order."""
    cut_off: tuple[AttemptNote, ...]
    """Attempts that nobody can take up again."""


NOTHING = Resumption(histories={}, cut_off=())


def plan_resumption(failed: Iterable[AttemptNote], in_flight: Iterable[AttemptNote]) -> Resumption:
    """Decide what becomes of each attempt that the last sitting left."""
    histories: dict[int, list[Completion]] = defaultdict(list)
    for note in failed:
        if note.barrier is not None:
            histories[note.schedule_idx].append(_decoder.decode(note.barrier))
    ordered = {
        idx: tuple(sorted(attempts, key=lambda attempt: attempt.attempt))
        for idx, attempts in histories.items()
    }
    return Resumption(histories=ordered, cut_off=tuple(in_flight))
