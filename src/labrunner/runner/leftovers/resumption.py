"""What a run that was cut short still knows about its trials under way, and what is made of each. Pure.

A failed attempt of a trial that was to be tried again stays part of its history. An attempt that was under
way is taken up where that needs no agent to run twice: its sandbox lives on, or its agent had ended and no
grader had started. Else it is cut off: its files stay as evidence, its number is used again, its slot is
owed; no error, no retry spent. After a power cut only what was synced can be graded: sandboxes that outlive
their runner sync what the agent left at the barrier, others do not. What an agent left on a node of a cluster
is taken up where the node says so, and nowhere else: its folders are not on this machine.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

import msgspec

from labrunner.errors import DamagedRun
from labrunner.records.barrier import BarrierNote
from labrunner.records.completion import Completion
from labrunner.sandbox.door import Survivor
from labrunner.store.buffering.attempts import AttemptNote
from labrunner.trial.ledger import stand_at_barrier

T = TypeVar("T")
_completions = msgspec.json.Decoder(Completion)
_barriers = msgspec.json.Decoder(BarrierNote)


@dataclass(frozen=True, slots=True, kw_only=True)
class Adoption:
    """An attempt that is taken up again."""

    note: AttemptNote
    survivor: Survivor


@dataclass(frozen=True, slots=True, kw_only=True)
class Resumption:
    """What a sitting goes on with; nothing in a run that is new."""

    histories: Mapping[int, tuple[Completion, ...]] = field(default_factory=dict)
    """Failed attempts by slot, in order."""
    adoptions: tuple[Adoption, ...] = ()
    cut_off: tuple[AttemptNote, ...] = ()
    """Attempts that nobody can take up again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """What is known about one slot's kind of sandbox and grader."""

    outlives_runner: bool
    repeatable_grader: bool
    has_rebooted: bool = False
    """The machine was, or may have been, started again since: what was not synced may be lost."""
    boot_id: str = ""
    """This boot of the machine; empty where that is not known."""


def plan_resumption(
    failed: Iterable[AttemptNote],
    in_flight: Iterable[AttemptNote],
    survivors: Iterable[Survivor],
    look: Callable[[AttemptNote], Situation],
) -> Resumption:
    """Decide what becomes of each attempt that the last sitting left."""
    by_token = {survivor.token: survivor for survivor in survivors}
    adoptions: list[Adoption] = []
    cut_off: list[AttemptNote] = []
    for note in in_flight:
        survivor = _take_up(note, by_token.get(note.token), look(note))
        if survivor is None:
            cut_off.append(note)
        else:
            adoptions.append(Adoption(note=note, survivor=survivor))
    return Resumption(histories=_histories(failed), adoptions=tuple(adoptions), cut_off=tuple(cut_off))


def _take_up(note: AttemptNote, survivor: Survivor | None, situation: Situation) -> Survivor | None:
    barrier = None if note.barrier is None else _decode(_barriers, note, note.barrier, "ended")
    is_elsewhere = barrier is not None and bool(barrier.node)
    # Whether another machine was started again is known there: what may be lost then is no survivor.
    has_rebooted = not is_elsewhere and (
        situation.has_rebooted or (barrier is not None and not _is_of_boot(barrier, situation))
    )
    may_grade = not note.grader_started or situation.repeatable_grader
    if survivor is not None:
        if has_rebooted and not may_grade:
            return None
        return survivor if survivor.is_adoptable(repeatable_grader=situation.repeatable_grader) else None
    if is_elsewhere or situation.outlives_runner or has_rebooted or barrier is None or not may_grade:
        return None
    return stand_at_barrier(note, barrier)


def _is_of_boot(barrier: BarrierNote, situation: Situation) -> bool:
    """Whether the agent ended in this boot, as far as that is known.

    Asked of every attempt: a sitting that was killed before it cut one off has its own name in the lock.
    """
    return bool(barrier.boot_id) and barrier.boot_id == situation.boot_id


def _decode(decoder: msgspec.json.Decoder[T], note: AttemptNote, data: bytes, how: str) -> T:
    try:
        return decoder.decode(data)
    except (ValueError, RecursionError) as error:
        raise DamagedRun(
            f"reading how attempt {note.attempt} of {note.trial_id} {how}, from the buffer: {error}; "
            "to take over what is good in a new run: lab retry"
        ) from error


def _histories(failed: Iterable[AttemptNote]) -> Mapping[int, tuple[Completion, ...]]:
    histories: dict[int, list[Completion]] = defaultdict(list)
    for note in failed:
        if note.failure is not None:
            histories[note.schedule_idx].append(_decode(_completions, note, note.failure, "failed"))
    return {
        idx: tuple(sorted(attempts, key=lambda attempt: attempt.attempt))
        for idx, attempts in histories.items()
    }
