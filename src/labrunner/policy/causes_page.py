"""Writes the table of causes for the pages: `python -m labrunner.policy.causes_page`."""

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

from labrunner.policy.causes import CONSEQUENCES, Consequence


def render() -> str:
    """Give the table as Markdown: one row a cause."""
    names = ("cause", "who", *_COLUMNS)
    return "\n".join([_line(names), "|" + "---|" * len(names), *_rows()]) + "\n"


def _rows() -> Iterator[str]:
    for cause, consequence in CONSEQUENCES.items():
        yield _line((f"`{cause}`", consequence.who, *(say(consequence) for say in _COLUMNS.values())))


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _retries(consequence: Consequence) -> str:
    if not consequence.retried:
        return "no"
    first = "yes" if consequence.spoils_work else "first the grader alone, `grader.retries` times; then yes"
    most = f", at most {consequence.most_retries}" if consequence.most_retries is not None else ""
    return first + most + (", after a wait" if consequence.backs_off else "")


_COLUMNS: Final[Mapping[str, Callable[[Consequence], str]]] = {
    "retried by `retry_on_error`": _retries,
    "counts towards `fail_on_error`": lambda consequence: _say(is_so=consequence.counted),
    "breaker watches": lambda consequence: _say(is_so=consequence.watched),
    "an agent may blame it": lambda consequence: _say(is_so=consequence.blamable),
}


def _say(*, is_so: bool) -> str:
    return "yes" if is_so else "no"


if __name__ == "__main__":
    sys.stdout.write(render())
