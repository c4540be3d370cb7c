"""A run directory that is about to be made: its `run.json`, and where it comes from."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from labrunner.errors import InputError
from labrunner.experiment import codec
from labrunner.experiment.addresses import hide_credentials
from labrunner.experiment.options.table import flag
from labrunner.experiment.resolved import Experiment
from labrunner.experiment.schedule import Schedule
from labrunner.experiment.sources.importers import path_of
from labrunner.records.encoding import canonical
from labrunner.records.encoding.canonical import stamp
from labrunner.records.encoding.ids import RUN_ID_PATTERN, make_run_id
from labrunner.records.run import Digests, RunRecord, Vouched
from labrunner.runner.reuse.history import digest_earlier
from labrunner.runner.upkeep import provenance
from labrunner.store.layout import RunPaths
from labrunner.store.writing.create import create_run


def _tell_nothing(run_id: str) -> list[bytes]:
    del run_id
    return []


@dataclass(frozen=True, slots=True, kw_only=True)
class Descent:
    """Where a new run comes from; as it stands, from nowhere."""

    lineage_id: str = ""
    """Empty for a run that begins a lineage of its own."""
    retry_of: tuple[str, ...] = ()
    vouched: Vouched | None = None
    recovered_from: str | None = None
    is_regrade: bool = False
    graded_times: int = 1
    tell_earlier: Callable[[str], list[bytes]] = field(default=_tell_nothing)
    """What runs before it did, as lines, for the run of this id."""


def make_record(
    experiment: Experiment,
    *,
    run_id: str | None = None,
    env_file: Path | None = None,
    overrides: Mapping[str, object] | None = None,
) -> RunRecord:
    """Make `run.json` for a new run."""
    now = datetime.now(UTC)
    run_id = run_id or make_run_id(experiment.name, now)
    if not re.match(RUN_ID_PATTERN, run_id):
        raise InputError(flag("run_id"), f"{run_id!r} can't name a run: use letters, digits and . _ = , + -")
    schedule = Schedule.of(experiment)
    return RunRecord(
        schema_version="run_v1",
        run_id=run_id,
        lineage_id=run_id,
        name=experiment.name,
        created_at=stamp(now),
        tags=experiment.tags,
        planned=len(schedule),
        digests=Digests(
            experiment=experiment.digest,
            schedule=canonical.digest_stream(schedule.lines(experiment)),
            tasks=canonical.digest_stream(codec.task_lines(experiment)),
        ),
        experiment=codec.to_record(experiment),
        provenance=provenance.observe(path_of(experiment.source)),
        env_file=str(env_file.resolve()) if env_file else None,
        overrides=_hide(overrides or {}),
    )


def create_new_run(runs_dir: Path, experiment: Experiment, record: RunRecord, descent: Descent) -> RunPaths:
    """Make the directory of a new run, with what came before it."""
    earlier = descent.tell_earlier(record.run_id)
    record = msgspec.structs.replace(
        record,
        lineage_id=descent.lineage_id or record.run_id,
        retry_of=descent.retry_of,
        vouched=descent.vouched,
        recovered_from=descent.recovered_from,
        is_regrade=descent.is_regrade,
        graded_times=descent.graded_times,
        digests=msgspec.structs.replace(record.digests, earlier=digest_earlier(earlier)),
    )
    schedule = Schedule.of(experiment)
    return create_run(runs_dir, record, codec.task_lines(experiment), schedule.lines(experiment), earlier)


def _hide(overrides: Mapping[str, object]) -> dict[str, object]:
    """Overrides as they are kept: without the credentials of the provider's address."""
    address = overrides.get("model_base_url")
    hidden = {"model_base_url": hide_credentials(address)} if isinstance(address, str) else {}
    return {**overrides, **hidden}
