"""Scores in full: what a row has no room for stands in a file of the attempt, which its trial's row names.

Rule: a row holds texts shortened, with a mark where something is left out; whoever reads scores reads them
here, so that nobody takes the short form for the whole.
"""

from collections.abc import Mapping
from typing import Any, Final

from labrunner.records.encoding import canonical
from labrunner.records.rows import SlotRows
from labrunner.store.layout import RunPaths

FULL_SCORES: Final = "scores.json"


def read_scores(paths: RunPaths, rows: SlotRows) -> Mapping[str, Any]:
    """A finished trial's scores by scorer, whole; as the row has them where the file is not what it was."""
    recorded = rows.scores[0].ext.get("scores") if rows.scores else None
    if not isinstance(recorded, dict):
        return {}
    ref = next((each for each in rows.trial.files if each.path == FULL_SCORES), None)
    if ref is None:
        return recorded
    try:
        data = (paths.attempt(rows.trial_id, rows.attempt) / FULL_SCORES).read_bytes()
    except OSError:
        return recorded
    whole = canonical.decode_plain(data) if canonical.digest_bytes(data) == ref.digest else None
    return whole if isinstance(whole, dict) else recorded
