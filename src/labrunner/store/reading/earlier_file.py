"""Reading what the runs before a run did for its slots.

Rule: what is there is what the run was made with, by its digest, or the run is damaged.
"""

import msgspec

from labrunner.errors import DamagedRun
from labrunner.files.durable import storing
from labrunner.records.encoding import canonical
from labrunner.records.facts.earlier import EarlierAttempt, EarlierRow
from labrunner.records.run import RunRecord
from labrunner.store.layout import RunPaths

_rows = msgspec.json.Decoder(EarlierRow)


def read_earlier_rows(paths: RunPaths, record: RunRecord) -> tuple[EarlierRow, ...]:
    """Every slot with attempts in earlier runs, in schedule order; none for a run that began a lineage."""
    if record.digests.earlier is None:
        return ()
    if not paths.earlier.exists():
        raise DamagedRun(f"{paths.earlier}: missing; it tells of the runs before this one")
    with storing("reading", paths.earlier):
        data = paths.earlier.read_bytes()
    if canonical.digest_bytes(data) != record.digests.earlier:
        raise DamagedRun(f"{paths.earlier}: not what the run was made with; try: lab verify")
    try:
        return tuple(_rows.decode_lines(data))
    except (ValueError, RecursionError) as error:
        raise DamagedRun(f"reading {paths.earlier}: {error}; try: lab verify") from error


def read_earlier(paths: RunPaths, record: RunRecord) -> dict[int, tuple[EarlierAttempt, ...]]:
    """The attempts of earlier runs by slot."""
    return {row.schedule_idx: row.attempts for row in read_earlier_rows(paths, record)}
