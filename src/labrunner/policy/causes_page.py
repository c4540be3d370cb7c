"""Writes the table of causes for the pages: `python -m labrunner.policy.causes_page`."""

import sys
from collections.abc import Iterator

from labrunner.policy.breaker import WATCHED
from labrunner.policy.causes import CONSEQUENCES, Consequence
from labrunner.records.cause import Cause


def render() -> str:
    """Give the table as Markdown: one row a cause."""
    head = "| cause | who | retried by `retry_on_error` | counts towards `fail_on_error` | breaker watches |"
    return "\n".join([head, "|---|---|---|---|---|", *_rows()]) + "\n"


def _rows() -> Iterator[str]:
    for cause, consequence in CONSEQUENCES.items():
        counts = "yes" if consequence.counts else "no"
        watched = "yes" if cause in WATCHED else "no"
        yield f"| `{cause}` | {consequence.who} | {_retries(cause, consequence)} | {counts} | {watched} |"


def _retries(cause: Cause, consequence: Consequence) -> str:
    if not consequence.retried:
        return "no"
    first = (
        "first the grader alone, `grader.retries` times; then yes" if cause is Cause.GRADE_ERROR else "yes"
    )
    most = f", at most {consequence.most_retries}" if consequence.most_retries is not None else ""
    return first + most + (", after a wait" if consequence.backs_off else "")


if __name__ == "__main__":
    sys.stdout.write(render())
