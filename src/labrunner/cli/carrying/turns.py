"""Several things done one after the other by one command."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from labrunner.errors import ExitCode


@dataclass(frozen=True, slots=True)
class Turn:
    """How one of several things went."""

    code: int
    is_interrupted: bool = False
    """Whether somebody asked to stop: then nothing is to follow it, though it may be complete."""


def in_turn(acts: Sequence[Callable[[], Turn]]) -> int:
    """Do one thing after the other; the first exit code that is not a success counts. A signal ends all."""
    first = int(ExitCode.SUCCESS)
    for number, act in enumerate(acts, start=1):
        turn = act()
        if turn.code == ExitCode.INTERRUPTED or (turn.is_interrupted and number < len(acts)):
            return int(ExitCode.INTERRUPTED)
        first = first or turn.code
    return first
