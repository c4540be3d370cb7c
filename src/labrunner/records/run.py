"""What a run directory says about the run as a whole: `run.json`, `status.json`, the lock's note."""

from typing import Any, Literal

import msgspec

RunStatus = Literal["started", "success", "error", "cancelled"]


class Git(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """State of the experiment's folder in git."""

    commit: str
    dirty: bool


class Provenance(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where a run came from."""

    user: str
    host: str
    boot_id: str
    platform: str
    python: str
    labrunner: str
    argv: tuple[str, ...]
    git: Git | None


class Digests(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What identifies the question that a run answers."""

    experiment: str
    schedule: str
    tasks: str
    earlier: str | None = None
    """Of the attempts before it; None where there were none."""


class Vouched(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Results of edited code that somebody said still stand (`--reuse-edited`)."""

    trials: int
    """How many of them were to be taken over when the run began."""
    changes: tuple[str, ...]
    """What had changed since they were made, in sentences."""
    digests: dict[str, str]
    """Digests of tasks and variants that they were made with, and those that they stand for now."""


class RunRecord(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`run.json`: written once, before anything else, never changed."""

    schema_version: Literal["run_v1"]
    run_id: str
    lineage_id: str
    name: str
    created_at: str
    tags: tuple[str, ...]
    planned: int
    """How many slots the schedule has."""
    digests: Digests
    experiment: dict[str, Any]  # the resolved Experiment without its tasks, encoded by its own room
    provenance: Provenance
    env_file: str | None
    """Path of `--env-file`, read again when the run goes on. Never its content."""
    retry_of: tuple[str, ...] = ()
    recovered_from: str | None = None
    """The run that a recovered report or a regrading was made from, without running agents: not continued."""
    is_regrade: bool = False
    """Whether its verdicts are new ones on the work of that run's agents."""
    graded_times: int = 1
    """How often a regrading judges each trial. Above one it asks how steady verdicts are: no results."""
    vouched: Vouched | None = None
    """Set when results were taken over though code was edited since."""
    overrides: dict[
        str, Any
    ] = {}  # the command line's changes to the experiment's file, encoded by their own room
    seal: str = ""
    """Short digest of the record without it."""


class Counts(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How far a run is."""

    planned: int
    committed: int
    buffered: int
    running: int
    passed: int
    failed: int
    errors: int


class ScheduleProgress(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Position in the fixed order: everything before `next_schedule_idx` is committed."""

    next_schedule_idx: int
    total: int


class RunError(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """What ended a run that did not succeed."""

    message: str
    cause: str | None = None
    trial_id: str | None = None


class StatusRecord(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`status.json`: a view for people and listings, replaced atomically. The journal is the truth."""

    schema_version: Literal["status_v1"]
    run_id: str
    status: RunStatus
    counts: Counts
    schedule_progress: ScheduleProgress
    error: RunError | None
    started_at: str
    updated_at: str
    ended_at: str | None
    chain: str | None
    """The run's digest: set when the run has ended."""
    seal: str = ""
    """Short digest of the record without it."""


class LockNote(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Text inside the lock file. Informs people; the kernel's lock alone decides."""

    pid: int
    host: str
    boot_id: str
    since: str


class InFlight(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An attempt that was under way when its run's owner died."""

    schedule_idx: int
    trial_id: str
    attempt: int
    state: Literal["dispatched", "barrier", "grading"]


class CrashRecord(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`crash-<n>.json`: a crash as it was found on opening. Kept, so that going on does not hide it."""

    schema_version: Literal["crash_v1"]
    run_id: str
    found_at: str
    last_owner: LockNote | None
    rebooted: bool | None
    """Whether the machine was started anew since; None when nobody can tell."""
    status_updated_at: str
    """The last sign of life: tells this crash from another one."""
    committed: int
    buffered: int
    in_flight: tuple[InFlight, ...]
    cut_bytes: dict[str, int]
    """Bytes of unfinished writes that were cut, by file; what they were is in `salvage/`."""
    lost: str | None = None
    """What was finished and lost with the buffer."""
    seal: str = ""
    """Short digest of the record without it."""
