"""What a command may require of results: options that end it with exit code 4 when they are not met."""

from typing import Annotated

import typer

from labrunner.analysis.judging.requirements import Requirements, parse_requirements
from labrunner.display.text.saying import say_aside
from labrunner.errors import ExitCode

Require = Annotated[
    list[str] | None,
    typer.Option(
        "--require",
        metavar="CONDITION",
        help='"treatment > baseline" or "pass >= 0.9"; not met is exit code 4 (repeatable)',
    ),
]
RequireStable = Annotated[
    bool, typer.Option("--require-stable", help="exit code 4 when retries may have bent the result")
]
RequireCoverage = Annotated[
    float | None,
    typer.Option("--require-coverage", metavar="SHARE", help="exit code 4 when fewer trials are graded"),
]


def read_requirements(texts: list[str] | None, *, is_stable: bool, coverage: float | None) -> Requirements:
    """Read what was required, before anything is done."""
    return parse_requirements(texts or [], is_stable=is_stable, coverage=coverage)


def tell_unmet(unmet: tuple[str, ...]) -> int:
    """Say what is not met, on standard error; the exit code that follows."""
    for sentence in unmet:
        say_aside(f"not met: {sentence}")
    return int(ExitCode.NOT_MET if unmet else ExitCode.SUCCESS)
