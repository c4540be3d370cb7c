"""Results of code that was edited since, taken over because somebody vouches for the edit.

Rules: only code may differ (folders of agents and graders, what an image is built from, files and modules
of Python tasks); whatever else is measured must be the same. What was vouched for is kept in the run's
record, so that a retry of that run knows which code its results came from, also when the first run is gone.
"""

from collections import Counter
from collections.abc import Iterable

from labrunner.errors import StoreError
from labrunner.experiment.digests import digests_beside_code
from labrunner.experiment.resolved import Experiment
from labrunner.experiment.revising.changes import changes
from labrunner.records.run import Vouched
from labrunner.runner.reports.recorded import read_experiment
from labrunner.store.layout import RunPaths
from labrunner.store.rows.single_records import read_run


class Vouching:
    """Which digests of earlier tasks and variants stand for those of an experiment, but for their code."""

    def __init__(self, experiment: Experiment, runs: Iterable[RunPaths]) -> None:
        """Read what the results of these runs were made with."""
        self._now = digests_beside_code(experiment)
        self._before: dict[str, str] = {}
        self._changes: dict[str, tuple[str, ...]] = {}
        self._taken: dict[int, dict[str, str]] = {}
        self._trials: Counter[int] = Counter()
        for paths in runs:
            self._learn(paths, experiment)

    def _learn(self, paths: RunPaths, now: Experiment) -> None:
        try:
            record, before = read_run(paths), read_experiment(paths)
        except StoreError:
            return  # whoever takes results from it finds out, and takes none
        known = digests_beside_code(before)
        earlier = record.vouched.digests if record.vouched is not None else {}
        known |= {old: known[new] for old, new in earlier.items() if new in known}
        told = (*changes(before, now), *(record.vouched.changes if record.vouched else ()))
        for digest, beside_code in known.items():
            self._before.setdefault(digest, beside_code)
            self._changes.setdefault(digest, told)

    def covers(self, before: str, now: str) -> bool:
        """Whether what had the digest `before` differs from what has `now` in nothing but code."""
        return before == now or self._before.get(before) == self._now[now]

    def take(self, source: int, *pairs: tuple[str, str]) -> None:
        """Note that a trial is taken from a source, by the digests that it has and those it stands for."""
        edited = {before: now for before, now in pairs if before != now}
        self._taken.setdefault(source, {}).update(edited)
        self._trials[source] += bool(edited)

    def give_back(self, source: int) -> None:
        """Note that nothing is taken from a source after all."""
        self._taken.pop(source, None)
        del self._trials[source]

    def conclude(self) -> Vouched | None:
        """What was vouched for; None when nothing had been edited."""
        used = {before: now for taken in self._taken.values() for before, now in taken.items()}
        if not used:
            return None
        told = dict.fromkeys(text for digest in used for text in self._changes.get(digest, ()))
        return Vouched(trials=self._trials.total(), changes=tuple(told), digests=dict(sorted(used.items())))
