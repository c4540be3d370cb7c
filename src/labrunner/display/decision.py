"""Which command goes on after a run that did not succeed: one sentence, wherever it is told."""

from typing import Final

DECISION: Final = (
    "stopped or crashed: `lab continue`; finished with errors, or something changed: `lab retry`; "
    "only looking: `lab log recover`"
)
