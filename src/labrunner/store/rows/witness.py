"""What other files know of the journal's length: tells one that lost lines from one that a crash left torn.

Rules: `status.json` is written after the commits that it counts were synced, so no crash and no power cut
leaves a journal with fewer lines than it says. (Crash notes are no such witness: they come before what a dead
owner may have left unsynced is made durable.) A commit syncs the rows of at most one group before its lines:
rows of more slots than that beyond the journal's end were committed once.
"""

from labrunner.errors import DamagedRun
from labrunner.files.durable import CHUNK, storing
from labrunner.records.commit import CommitLine
from labrunner.store.layout import RunPaths
from labrunner.store.rows.journal import GROUP_LIMIT
from labrunner.store.rows.single_records import read_status
from labrunner.store.rows.written import open_file


def find_floor(paths: RunPaths) -> int:
    """How many slots were committed for sure. To be asked before the journal is read, which may grow."""
    status = read_status(paths)
    return 0 if status is None else status.counts.committed


def find_lost_lines(floor: int, committed: int) -> str | None:
    """What is wrong with a journal of so many lines; None when it is long enough."""
    if committed >= floor:
        return None
    return (
        f"{committed} slots are committed, but status.json counted {floor}: "
        "the journal has lost lines, and no crash does that"
    )


def refuse_shortened(paths: RunPaths, floor: int, last: CommitLine | None) -> None:
    """Raise DamagedRun when the journal ends before what was committed for sure."""
    problem = find_lost_lines(floor, 0 if last is None else last.schedule_idx + 1)
    if problem is not None:
        raise DamagedRun(f"{paths.commits}: {problem}; nothing was changed")


def find_orphans(paths: RunPaths, end: int) -> str | None:
    """What is wrong when more rows lie beyond the journal's end than one commit leaves there."""
    orphans = 0
    with open_file(paths.trials) as file, storing("reading", paths.trials):
        file.seek(end)
        while data := file.read(CHUNK):
            orphans += data.count(b"\n")
    if orphans <= GROUP_LIMIT:
        return None
    return (
        f"it ends {orphans} rows before {paths.name(paths.trials)}, and one commit is {GROUP_LIMIT} at most: "
        "the journal has lost lines, and no crash does that"
    )
