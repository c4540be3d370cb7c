"""A run's summary as its owner wrote it, used again for as long as it holds.

Rules: a summary names what it was made from (the end of the journal, how many results waited in the buffer,
the marks on trials, the version of this program) and carries a seal over itself. When any of these differs,
when results wait in the buffer, or when the file can't be read, it is computed anew: the rows are the truth,
this is a view of them.
"""

import msgspec

from labrunner.analysis.summary import read_report
from labrunner.files.durable import storing
from labrunner.records import seals
from labrunner.records.encoding import canonical
from labrunner.records.summary import SummaryRecord
from labrunner.store.checking.invalidations import read_invalidations
from labrunner.store.layout import RunPaths
from labrunner.store.reading.survey import Survey, survey
from labrunner.version import VERSION

_decoder = msgspec.json.Decoder(SummaryRecord)


def basis_of(seen: Survey) -> dict[str, object]:
    """What a summary of this moment is made from; whoever reads what waits counts it."""
    path = seen.paths.invalidations
    with storing("reading", path):
        marks = path.read_bytes() if path.exists() else b""
    return {
        "committed": seen.committed,
        "chain": seen.chain,
        "waiting": 0,
        "invalidations": canonical.digest_bytes(marks),
        "labrunner": VERSION,
    }


def seal_summary(summary: SummaryRecord, basis: dict[str, object]) -> SummaryRecord:
    """Note in a summary what it was made from, and seal it."""
    return seals.seal_summary(msgspec.structs.replace(summary, ext=summary.ext | {"basis": basis}))


def is_summary_whole(paths: RunPaths, run_id: str) -> bool:
    """Whether the summary in a run's directory is as its owner wrote it, though it may not hold any more."""
    try:
        summary = _decoder.decode(paths.summary.read_bytes())
    except (OSError, ValueError, RecursionError):
        return False
    return summary.run_id == run_id and seals.seal_summary(summary) == summary


def read_summary(paths: RunPaths) -> SummaryRecord | None:
    """The summary that lies in a run's directory, when it says what would be computed now.

    Raises DamagedRun when marks were lost: the summary of before them would hold again.
    """
    summary = read_older(paths)
    if summary is None:
        return None
    read_invalidations(paths)
    with survey(paths) as seen:
        holds = summary.ext.get("basis") == basis_of(seen) and next(seen.waiting, None) is None
    return summary if holds else None


def read_older(paths: RunPaths) -> SummaryRecord | None:
    """The summary that lies in a run's directory, though it may speak of less than is finished by now."""
    try:
        summary = _decoder.decode(paths.summary.read_bytes())
    except (OSError, ValueError, RecursionError):
        return None
    return summary if seals.seal_summary(summary) == summary and _has_our_shape(summary) else None


def _has_our_shape(summary: SummaryRecord) -> bool:
    """Whether what another build of this program wrote has the figures that this one shows."""
    try:
        read_report(summary)
    except (KeyError, ValueError):
        return False
    return True
