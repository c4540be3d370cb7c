"""What `lab doctor` prints: one line a check, what failed first in words, and the verdict last."""

from collections.abc import Sequence

from rich.console import RenderableType

from labrunner.display.text.console import make_line, make_table, stack
from labrunner.display.text.quantities import format_count
from labrunner.sandbox.door import Check


def show_checks(checks: Sequence[Check], *between: RenderableType) -> RenderableType:
    """Show a preflight report, whatever else belongs to it, and the verdict last."""
    rows = [(_mark(check), check.name, check.message) for check in checks]
    table = make_table(("", "check", "found"), rows)
    return stack(table, *between, make_line(""), make_line(*_verdict(checks)))


def show_machine(
    checks: Sequence[Check], *between: RenderableType, scripts: Sequence[str] = ()
) -> RenderableType:
    """Show what was found of a machine, without an experiment that says what is needed.

    `scripts` are Python files of this folder: perhaps a task is in one of them.
    """
    rows = [("ok" if check.passed else "no", check.name, check.message) for check in checks]
    told = "there is no experiment.yaml here, so only this machine was checked; "
    told += f"for a task in Python: lab doctor {scripts[0]}" if scripts else "`lab init` writes an experiment"
    table = make_table(("", "check", "found"), rows)
    return stack(table, *between, make_line(""), make_line(told))


def show_warnings(checks: Sequence[Check]) -> RenderableType | None:
    """Show only what may be overlooked; None when there is nothing."""
    warnings = [check for check in checks if not check.passed and check.severity == "warning"]
    return (
        stack(*(make_line(f"{_mark(check)}: {check.name}: {check.message}") for check in warnings))
        if warnings
        else None
    )


def _mark(check: Check) -> str:
    return "ok" if check.passed else check.severity


def _verdict(checks: Sequence[Check]) -> tuple[str, str]:
    errors = sum(not check.passed and check.severity == "error" for check in checks)
    warnings = sum(not check.passed and check.severity == "warning" for check in checks)
    if errors:
        return f"{format_count(errors, 'error')}: nothing can run before this is mended", "red"
    if warnings:
        return f"ready to run, with {format_count(warnings, 'warning')}", "yellow"
    return "ready to run", "green"
