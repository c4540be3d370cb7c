"""Which command goes on after a run that did not succeed: one sentence, wherever it is told.

A report that was made of a run goes on in no command of its own: what to do is told of the run.
"""

from typing import Final

DECISION: Final = (
    "stopped or crashed: `lab continue`; finished with errors, or something changed: `lab retry`; "
    "damaged: `lab log recover`, then `lab retry` of that report"
)


def describe_report(report: str, source: str, *, can_go_on: bool) -> list[str]:
    """What to do about what a report lacks; `can_go_on` tells whether its run is there and sound."""
    going_on = [f"to go on with the run itself, in place: lab continue {source}"] if can_go_on else []
    return [*going_on, f"to run them in a new run, from this report: lab retry {report}"]
