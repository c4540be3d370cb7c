"""The fixed order of a run's slots, as arithmetic over counts: nothing here grows with its length.

Rules: an order is a bijection between `schedule_idx` and (variant, task, replication). It depends on the
counts, the order's name and the seed alone, so it is the same on every machine and Python.

balanced    replication, task, variant    variants meet the same weather; an interrupted run is balanced
by_variant  variant, replication, task
by_task     task, replication, variant
shuffled    balanced, permuted by the seed
"""

import hashlib
import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, Self

from labrunner.experiment.resolved import Experiment, Order
from labrunner.records.encoding import canonical
from labrunner.records.encoding.ids import make_trial_id

_ROUNDS: Final = 8
_DIGITS: Final = {
    Order.BALANCED: ("repl", "task", "variant"),
    Order.BY_VARIANT: ("variant", "repl", "task"),
    Order.BY_TASK: ("task", "repl", "variant"),
    Order.SHUFFLED: ("repl", "task", "variant"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Slot:
    """A planned trial: its position, and what is run there."""

    schedule_idx: int
    variant_idx: int
    task_idx: int
    repl_idx: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """All slots of a run, computed one by one when asked for."""

    variants: int
    tasks: int
    replications: int
    order: Order
    seed: int = 0

    @classmethod
    def of(cls, experiment: Experiment) -> Self:
        """The schedule of an experiment."""
        return cls(
            variants=len(experiment.variants),
            tasks=len(experiment.tasks),
            replications=experiment.replications,
            order=experiment.order,
            seed=experiment.seed,
        )

    def __len__(self) -> int:
        """How many slots there are."""
        return self.variants * self.tasks * self.replications

    def __iter__(self) -> Iterator[Slot]:
        """Give the slots in order, one at a time."""
        return (self.slot(idx) for idx in range(len(self)))

    def slot(self, idx: int) -> Slot:
        """Give the slot at position `idx`."""
        if not 0 <= idx < len(self):
            raise IndexError(f"slot {idx} of a schedule with {len(self)} slots")
        if self.order is Order.SHUFFLED:
            return self._slot(idx, permutation(len(self), self.seed).forward(idx))
        return self._slot(idx, idx)

    def index(self, variant_idx: int, task_idx: int, repl_idx: int) -> int:
        """Give the position of a trial: the inverse of `slot`."""
        position = 0
        for (_, count), value in zip(
            self._radix(), self._digits(variant_idx, task_idx, repl_idx), strict=True
        ):
            if not 0 <= value < count:
                raise IndexError(f"no trial ({variant_idx}, {task_idx}, {repl_idx}) in this schedule")
            position = position * count + value
        if self.order is Order.SHUFFLED:
            return permutation(len(self), self.seed).backward(position)
        return position

    def lines(self, experiment: Experiment) -> Iterator[bytes]:
        """Give the lines of `schedule.jsonl`."""
        for slot in self:
            variant_id = experiment.variants[slot.variant_idx].id
            task_id = experiment.tasks[slot.task_idx].id
            yield canonical.encode_line(
                {
                    "schedule_idx": slot.schedule_idx,
                    "variant_id": variant_id,
                    "task_id": task_id,
                    "repl_idx": slot.repl_idx,
                    "trial_id": make_trial_id(variant_id, task_id, slot.repl_idx),
                }
            )

    def _radix(self) -> tuple[tuple[str, int], ...]:
        return _radix(self.order, self.variants, self.tasks, self.replications)

    def _digits(self, variant_idx: int, task_idx: int, repl_idx: int) -> tuple[int, ...]:
        values = {"variant": variant_idx, "task": task_idx, "repl": repl_idx}
        return tuple(values[name] for name, _ in self._radix())

    def _slot(self, idx: int, position: int) -> Slot:
        values = {}
        for name, count in reversed(self._radix()):
            position, values[name] = divmod(position, count)
        return Slot(
            schedule_idx=idx, variant_idx=values["variant"], task_idx=values["task"], repl_idx=values["repl"]
        )


@lru_cache(maxsize=16)
def _radix(order: Order, variants: int, tasks: int, replications: int) -> tuple[tuple[str, int], ...]:
    """Names and counts of the position's digits, the outermost first."""
    counts = {"variant": variants, "task": tasks, "repl": replications}
    return tuple((name, counts[name]) for name in _DIGITS[order])


class Permutation:
    """A permutation of 0..size-1 chosen by a seed: a Feistel network with cycle walking.

    Numbers are taken as pairs (left, right) in a rectangle just larger than `size`, whose sides need not be
    powers of two, so that hardly any value has to walk on.
    """

    __slots__ = ("_keys", "_left", "_right", "size")

    def __init__(self, *, size: int, seed: int) -> None:
        """Derive the round keys from the seed."""
        self.size = size
        self._left = math.isqrt(max(size - 1, 0)) + 1
        self._right = -(-size // self._left) or 1
        self._keys = tuple(
            hashlib.sha256(f"labrunner order {seed} {n}".encode()).digest() for n in range(_ROUNDS)
        )

    def forward(self, value: int) -> int:
        """Where `value` goes."""
        value = self._forward_once(value)
        while value >= self.size:
            value = self._forward_once(value)
        return value

    def backward(self, value: int) -> int:
        """What comes to `value`."""
        value = self._backward_once(value)
        while value >= self.size:
            value = self._backward_once(value)
        return value

    def _forward_once(self, value: int) -> int:
        left, right = divmod(value, self._right)
        for number, key in enumerate(self._keys):
            if number % 2:
                right = (right + _mix(key, left)) % self._right
            else:
                left = (left + _mix(key, right)) % self._left
        return left * self._right + right

    def _backward_once(self, value: int) -> int:
        left, right = divmod(value, self._right)
        for number, key in reversed(tuple(enumerate(self._keys))):
            if number % 2:
                right = (right - _mix(key, left)) % self._right
            else:
                left = (left - _mix(key, right)) % self._left
        return left * self._right + right


@lru_cache(maxsize=16)
def permutation(size: int, seed: int) -> Permutation:
    """Give the permutation of a seed; its keys are derived once."""
    return Permutation(size=size, seed=seed)


def _mix(key: bytes, value: int) -> int:
    return int.from_bytes(hashlib.sha256(key + value.to_bytes(8, "big")).digest()[:8], "big")
