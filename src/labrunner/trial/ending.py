"""How an attempt ends, whatever comes out of it: the one place where exceptions become records.

Rules: every way out is exactly one end, except cancellation and a disk, or a table of open files, that gave
out: these pass through. What somebody else spoilt has its cause from where it happened; anything else that
escapes is blamed on ourselves, with its traceback.
"""

import asyncio
from collections.abc import Awaitable, Callable

from labrunner.errors import AttemptFailed, OutOfFiles, StoreError
from labrunner.files.strangers.masking import Masker
from labrunner.records.completion import AttemptEnd, Failed, Graded
from labrunner.trial import classification
from labrunner.trial.assignment import AttemptScene, Notes
from labrunner.trial.collecting.cut_off import redact_cancelled


def _nothing() -> None:
    """Nothing to leave."""


async def reach_end(
    work: Awaitable[AttemptEnd],
    scene: AttemptScene,
    notes: Notes,
    masker: Masker,
    *,
    tell: Callable[[AttemptFailed], Failed] = classification.spoilt,
    leave: Callable[[], None] = _nothing,
) -> AttemptEnd:
    """Wait for an attempt's end. `tell` makes a record of a failure; `leave` is called on cancellation."""
    end: AttemptEnd
    try:
        end = await work
    except asyncio.CancelledError:
        leave()
        await redact_cancelled(scene.folders.root, masker)
        raise
    except AttemptFailed as failure:
        end = tell(failure)
    except StoreError:
        raise
    except Exception as bug:
        # Here our own bugs become records.
        if OutOfFiles.says(bug):
            raise OutOfFiles(f"carrying out {scene.ids.trial_id}: too many open files") from bug
        end = classification.bug_failure(bug)
    if isinstance(end, Graded):
        # A failure may end the run: its place stays taken until somebody has decided.
        notes.sandbox_gone(scene.assignment.token)
    return end
