"""An attempt at its end: what is settled, noted and published."""

import msgspec

from labrunner.records.completion import Completion, Failed
from labrunner.runner.plan import Work
from labrunner.trial.assignment import Assignment


class EndedAttempt(msgspec.Struct, frozen=True, kw_only=True):
    """An attempt that came to its end, before it is decided what follows from it.

    A Struct, as the steps of its settlement are: made for every attempt, and ten times faster.
    """

    work: Work
    assignment: Assignment
    completion: Completion

    @property
    def attempts(self) -> tuple[Completion, ...]:
        """Every attempt of the trial, this one last."""
        return (*self.work.history, self.completion)

    @property
    def failure(self) -> Failed | None:
        """Why it has no grade, if it has none."""
        return self.completion.end if isinstance(self.completion.end, Failed) else None
