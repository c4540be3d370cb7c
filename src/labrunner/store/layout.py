"""Where things lie in a run's directory: the one place that knows its names."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class RunPaths:
    """A run's directory. Only the owner of the run writes here; everybody may read.

    run.json                      what is run, and where it came from; written once
    tasks.jsonl                   the resolved tasks, one a line; written once
    schedule.jsonl                the slots in order; written once
    status.json                   how far it is, replaced atomically; a view
    lock                          locked by the owner; never renamed, never removed
    commits.jsonl                 the journal: one line a committed slot; the truth
    benchmark/predictions.jsonl   rows, committed up to the journal's offsets
    benchmark/scores.jsonl
    benchmark/summary.json        a view
    facts/trials.jsonl
    facts/timings.jsonl           everything that depends on clock or machine
    facts/invalidations.jsonl     trials not to be used, with who and why
    facts/marks.json              how many of those there are
    facts/outages.json            when outages paused the run; a view
    facts/earlier.jsonl           attempts of the runs before it, where it is a retry; written once
    reserve                       room on the disk for what is in hand when it is full; the owner's
    buffer.sqlite                 finished and not yet committed; attempts under way; live events
    buffered.jsonl                which results went into the buffer; tells what is lost with it
    crash-<n>.json                one for each crash found on opening
    salvage/                      what opening cut off or could not read
    gateway/                      the gateway's lock, socket and log, and what nodes borrowed
    trials/<trial_id>/<attempt>/  what an attempt left
    """

    root: Path

    @property
    def run(self) -> Path:
        """What is run."""
        return self.root / "run.json"

    @property
    def tasks(self) -> Path:
        """The resolved tasks."""
        return self.root / "tasks.jsonl"

    @property
    def schedule(self) -> Path:
        """The slots in order."""
        return self.root / "schedule.jsonl"

    @property
    def status(self) -> Path:
        """How far the run is."""
        return self.root / "status.json"

    @property
    def lock(self) -> Path:
        """The owner's lock."""
        return self.root / "lock"

    @property
    def commits(self) -> Path:
        """The journal."""
        return self.root / "commits.jsonl"

    @property
    def predictions(self) -> Path:
        """Prediction rows."""
        return self.root / "benchmark" / "predictions.jsonl"

    @property
    def scores(self) -> Path:
        """Score rows."""
        return self.root / "benchmark" / "scores.jsonl"

    @property
    def summary(self) -> Path:
        """The summary."""
        return self.root / "benchmark" / "summary.json"

    @property
    def trials(self) -> Path:
        """Trial rows."""
        return self.root / "facts" / "trials.jsonl"

    @property
    def timings(self) -> Path:
        """Timing rows."""
        return self.root / "facts" / "timings.jsonl"

    @property
    def invalidations(self) -> Path:
        """Marks on trials that are not to be used."""
        return self.root / "facts" / "invalidations.jsonl"

    @property
    def earlier(self) -> Path:
        """Attempts of the runs before it."""
        return self.root / "facts" / "earlier.jsonl"

    @property
    def marks(self) -> Path:
        """How many trials are marked."""
        return self.root / "facts" / "marks.json"

    @property
    def outages(self) -> Path:
        """When outages paused the run."""
        return self.root / "facts" / "outages.json"

    @property
    def gateway(self) -> Path:
        """The gateway's own folder."""
        return self.root / "gateway"

    @property
    def buffered(self) -> Path:
        """What went into the buffer."""
        return self.root / "buffered.jsonl"

    @property
    def buffer(self) -> Path:
        """The buffer database."""
        return self.root / "buffer.sqlite"

    @property
    def reserve(self) -> Path:
        """Room kept back."""
        return self.root / "reserve"

    @property
    def salvage(self) -> Path:
        """What opening cut off."""
        return self.root / "salvage"

    @property
    def trial_folders(self) -> Path:
        """The folder of all trials' folders."""
        return self.root / "trials"

    def trial(self, trial_id: str) -> Path:
        """A trial's folder."""
        return self.trial_folders / trial_id

    def attempt(self, trial_id: str, n: int) -> Path:
        """An attempt's folder."""
        return self.trial_folders / trial_id / str(n)

    def crash(self, n: int) -> Path:
        """The note of the n-th crash."""
        return self.root / f"crash-{n}.json"

    def name(self, path: Path) -> str:
        """A file's name for messages and reports: its path below the run's directory."""
        return (path.relative_to(self.root) if path.is_relative_to(self.root) else path).as_posix()
