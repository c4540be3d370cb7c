"""When outages paused a run, on disk: a view for people, replaced whole.

Rules: a file that is not as it was written is left out with a warning, and the next outage begins it anew:
nothing rests on it.
"""

import logging
from typing import Final

from labrunner.errors import DamagedRun, StoreError
from labrunner.files.durable import replace, storing
from labrunner.records import schema
from labrunner.records.encoding import canonical
from labrunner.records.facts.outage_note import OutageNote, OutagesRecord
from labrunner.records.seals import is_as_written, seal
from labrunner.store.layout import RunPaths
from labrunner.store.rows.single_records import ALTERED, decode, read_run

_log: Final = logging.getLogger(__name__)


def read_outages(paths: RunPaths) -> tuple[OutageNote, ...]:
    """The outages of a run, the oldest first."""
    try:
        return load_outages(paths)
    except StoreError as error:
        _log.warning("%s; left out", error)
        return ()


def load_outages(paths: RunPaths) -> tuple[OutageNote, ...]:
    """The same. Raises DamagedRun when they are not this run's, as written."""
    if not paths.outages.exists():
        return ()
    with storing("reading", paths.outages):
        data = paths.outages.read_bytes()
    record = decode(paths.outages, data, OutagesRecord, "outages_v1")
    if not is_as_written(record, data):
        raise DamagedRun(f"{paths.outages}: {ALTERED}")
    if record.run_id != (owner := read_run(paths).run_id):
        raise DamagedRun(f"{paths.outages}: belongs to run {record.run_id}, not to {owner}")
    return record.outages


def put_outage(paths: RunPaths, outage: OutageNote) -> None:
    """Note an outage, durably, in place of what was noted of it when it began. For the run's owner."""
    known = [each for each in read_outages(paths) if each.began_at != outage.began_at]
    record = OutagesRecord(
        schema_version="outages_v1", run_id=read_run(paths).run_id, outages=(*known, outage)
    )
    data = canonical.encode_line(seal(record))
    schema.validate("outages_v1", data)
    replace(paths.outages, data, point="outages")
