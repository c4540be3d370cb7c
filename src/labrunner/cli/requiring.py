"""What a command may require of results: options that end it with exit code 4 when they are not met."""

from typing import Annotated

from labrunner.analysis.judging.requirements import Requirements, parse_requirements
from labrunner.cli.pieces import take_option
from labrunner.display.text.saying import say_aside
from labrunner.errors import ExitCode

Require = Annotated[list[str] | None, take_option("require")]
RequireStable = Annotated[bool, take_option("require_stable")]
RequireCoverage = Annotated[float | None, take_option("require_coverage")]


def read_requirements(texts: list[str] | None, *, is_stable: bool, coverage: float | None) -> Requirements:
    """Read what was required, before anything is done."""
    return parse_requirements(texts or [], is_stable=is_stable, coverage=coverage)


def tell_unmet(unmet: tuple[str, ...], notes: tuple[str, ...] = ()) -> int:
    """Say what is not met, and what to know beside that, on standard error; the exit code that follows."""
    for sentence in unmet:
        say_aside(f"not met: {sentence}")
    for sentence in notes:
        say_aside(f"note: {sentence}")
    return int(ExitCode.NOT_MET if unmet else ExitCode.SUCCESS)
