"""How a variant's agents ended, and whether they seem never to have run.

An agent that can't start (a wrong key, a missing model, a changed option) ends at once, leaves nothing, and
is graded `fail`: that looks like a bad agent, and is none. Rules: only agents that did not pass are counted,
and a trait that any passing agent of the variant shares says nothing. One trait must hold for most of a
variant's agents; two together for half of them. Memory: one number a trial, and a few a variant.
"""

from array import array
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final

from labrunner.analysis.sums.expense import Attempt, Timing
from labrunner.analysis.sums.tally import Trial
from labrunner.records.barrier import FRESH
from labrunner.records.facts.exit_status import NO_COMMAND

ALONE: Final = 0.75
"""A trait tells something when this share of a variant's agents has it."""
TOGETHER: Final = 0.5
"""The same for agents that exit alike and leave nothing."""
FEWEST: Final = 3
"""Fewer agents than this tell something only when they are all."""
FAST: Final = 0.1
"""Faster than this share of what agents of other variants take."""
SLOW_ENOUGH_S: Final = 2.0
"""Where others take less than this, being faster says nothing."""
ERROR: Final = "error"
SYSTEM_CHANGED: Final = "system_changed"
"""Flag of trials whose agent changed the system that a grader would trust."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Suspicion:
    """What makes a variant's agents look as if they had never run."""

    facts: tuple[str, ...]
    trial_id: str
    """One to look at."""


@dataclass(slots=True)
class _Group:
    failed: int = 0
    passed: int = 0
    example: str = ""
    """The first that did not pass."""

    def add(self, trial_id: str, *, has_passed: bool) -> None:
        if has_passed:
            self.passed += 1
        else:
            self.failed += 1
            self.example = self.example or trial_id

    def __add__(self, other: "_Group") -> "_Group":
        return _Group(self.failed + other.failed, self.passed + other.passed, self.example or other.example)


class VariantConduct:
    """One variant's agents, as far as they are commands and were graded."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self.agents = 0
        self.errors = 0
        """Agents that say `outcome: "error"` of themselves."""
        self.first_error = ""
        self.first_changed: tuple[str, str] | None = None
        """The first trial whose agent changed the system, and the paths, one a line."""
        self.renewed = 0
        """Trials that were judged in a fresh container for that."""
        self.leaks = 0
        """Trials with secrets in what was kept of them, masked."""
        self.first_leak = ""
        self.incomplete = 0
        """Trials of which files were not kept."""
        self.first_incomplete = ""
        self.seconds = array("d")
        self._fastest_that_passed = float("inf")
        self._groups: defaultdict[tuple[int | None, bool], _Group] = defaultdict(_Group)

    def add(self, trial: Trial, timing: Timing) -> None:
        """Take in one final trial."""
        self._add_files(trial.ids.trial_id, timing)
        if trial.outcome != "graded" or (fact := trial.attempts[-1].agent) is None:
            return
        times = timing.attempts[-1]
        self.agents += 1
        trial_id, has_passed = trial.ids.trial_id, trial.verdict == "pass"
        self._groups[fact.exit_status, times.left_nothing].add(trial_id, has_passed=has_passed)
        if times.agent_outcome == ERROR:
            self.errors += 1
            self.first_error = self.first_error or trial_id
        if self.first_changed is None and (changed := _changed_paths(times)):
            self.first_changed = trial_id, changed
        self.renewed += trial.barrier == FRESH and SYSTEM_CHANGED in trial.flags
        seconds = times.phases_s.get("agent")
        if seconds is not None:
            self.seconds.append(seconds)
            if has_passed:
                self._fastest_that_passed = min(self._fastest_that_passed, seconds)

    def _add_files(self, trial_id: str, timing: Timing) -> None:
        if any(attempt.masked_secrets for attempt in timing.attempts):
            self.leaks += 1
            self.first_leak = self.first_leak or trial_id
        if any(attempt.dropped for attempt in timing.attempts):
            self.incomplete += 1
            self.first_incomplete = self.first_incomplete or trial_id

    def suspect(self, others: Sequence[float]) -> Suspicion | None:
        """What is odd about these agents, given the seconds that agents of other variants took."""
        found = [*self._find_alike(), *self._find_idle(), *self._find_fast(others)]
        if not found:
            return None
        return Suspicion(facts=tuple(fact for fact, _ in found), trial_id=found[0][1])

    def _find_alike(self) -> Iterator[tuple[str, str]]:
        for status in dict.fromkeys(status for status, _ in self._groups if status):
            idle = self._groups.get((status, True), _Group())
            alike = idle + self._groups.get((status, False), _Group())
            if not (self._is_telling(alike, ALONE) or self._is_telling(idle, TOGETHER)):
                continue
            told = f"{self._share(alike.failed)} exited with {status}"
            yield f"{told}, as where a command is not found" if status in NO_COMMAND else told, alike.example

    def _find_idle(self) -> Iterator[tuple[str, str]]:
        idle = sum((group for (_, is_idle), group in self._groups.items() if is_idle), _Group())
        if self._is_telling(idle, ALONE) or any(
            self._is_telling(group, TOGETHER)
            for (status, is_idle), group in self._groups.items()
            if is_idle and status
        ):
            yield f"{self._share(idle.failed)} changed nothing and handed in nothing", idle.example

    def _find_fast(self, others: Sequence[float]) -> Iterator[tuple[str, str]]:
        usual = median(others) if len(others) >= FEWEST else 0.0
        if usual < SLOW_ENOUGH_S or len(self.seconds) < FEWEST:
            return
        limit = FAST * usual
        fast = sum(seconds < limit for seconds in self.seconds)
        if self._fastest_that_passed < limit or fast < ALONE * self.agents:
            return
        example = next(group.example for group in self._groups.values() if group.example)
        yield f"{self._share(fast)} ended within {limit:.2g} s, others take {usual:.2g} s", example

    def _is_telling(self, group: _Group, share: float) -> bool:
        if group.passed or not group.failed or group.failed < share * self.agents:
            return False
        return group.failed >= FEWEST or group.failed == self.agents

    def _share(self, count: int) -> str:
        noun = "agent" if self.agents == 1 else "agents"
        return f"{count:,} of {self.agents:,} {noun}"


class Conduct:
    """A run's agents, variant by variant."""

    def __init__(self, idle: Collection[str] = ()) -> None:
        """Begin with nothing; `idle` are variants whose agents are meant to do nothing."""
        self.variants: defaultdict[str, VariantConduct] = defaultdict(VariantConduct)
        self._idle = idle

    def add(self, trial: Trial, timing: Timing) -> None:
        """Take in one final trial."""
        self.variants[trial.ids.variant_id].add(trial, timing)

    def suspicions(self) -> Mapping[str, Suspicion]:
        """Variants whose agents seem never to have run."""
        found = {}
        for name, conduct in self.variants.items():
            others = [s for other, each in self.variants.items() if other != name for s in each.seconds]
            if name not in self._idle and (suspicion := conduct.suspect(others)):
                found[name] = suspicion
        return found


def _changed_paths(attempt: Attempt) -> str:
    barrier = attempt.barrier
    return str(barrier.get("changed", "")) if isinstance(barrier, dict) else barrier.changed
