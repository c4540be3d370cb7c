"""What must hold for a run's directory at every moment at which nobody writes to it, and at its end.

Checked on the directory alone; only what was acknowledged comes from outside.
"""

from pathlib import Path

from labrunner.records.rows import SlotRows
from labrunner.store.checking.evidence import check_evidence
from labrunner.store.checking.verification import verify
from labrunner.store.layout import RunPaths
from labrunner.store.reading.run_state import iter_finished, read_state
from tests.kit.crash.driver import digest_slot
from tests.kit.crash.driving import Heard
from tests.kit.runner.running import committed_bytes


def check_dead(paths: RunPaths, heard: Heard) -> None:
    """Nothing acknowledged is missing, changed, doubled or out of order; nothing committed is in doubt."""
    if not paths.root.exists():
        assert heard.finished == {}, f"{paths.root} is gone, beside it: {sorted(paths.root.parent.glob('*'))}"
        return
    report = verify(paths)  # order, gaps, doubles, digests of rows and of the files that they name
    assert [str(problem) for problem in report.problems] == []
    present: dict[int, str] = {}
    for rows in iter_finished(paths):
        assert rows.schedule_idx not in present
        present[rows.schedule_idx] = digest_slot(rows)
        check_slot(paths, rows, is_committed=rows.schedule_idx < report.committed)
    lost = {idx: digest for idx, digest in heard.finished.items() if present.get(idx) != digest}
    assert lost == {}, f"{len(lost)} acknowledged slots are missing or changed"
    assert heard.run_again == []
    assert heard.doubled == []


def check_slot(paths: RunPaths, rows: SlotRows, *, is_committed: bool) -> None:
    """Attempts are numbered without gaps; files that a buffered row names are there as well."""
    numbers = [attempt.attempt for attempt in rows.trial.attempts]
    assert numbers == list(range(1, len(numbers) + 1))
    assert rows.attempt == numbers[-1]
    if not is_committed:  # of the others it is known
        assert list(check_evidence(paths, rows.trial, rows.timing, are_logs_kept=True)) == []


def check_complete(paths: RunPaths, undisturbed: Path) -> None:
    """The run ended as if nothing had happened: the very same bytes."""
    report = verify(paths)
    assert (report.problems, report.notes, report.is_complete) == ((), (), True)
    assert read_state(paths) == "success"
    assert committed_bytes(paths.root) == committed_bytes(undisturbed)
