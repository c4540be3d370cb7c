"""What `lab doctor` prints: one line a check, what failed first in words, and the verdict last."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from rich.console import RenderableType

from labrunner.display.text.console import make_line, make_table, stack
from labrunner.display.text.quantities import format_count
from labrunner.runner.upkeep.preflight import find_left_out, is_refusing, leave_out, name_nodes, tell_name
from labrunner.sandbox.door import Check


def show_checks(checks: Sequence[Check], *between: RenderableType) -> RenderableType:
    """Show a preflight report, whatever else belongs to it, and the verdict last."""
    rows = [(_mark(check), check.name, check.message) for check in checks if not check.node]
    table = make_table(("", "check", "found"), rows)
    nodes = _show_nodes([check for check in checks if check.node])
    return stack(table, *nodes, *between, make_line(""), make_line(*_verdict(checks)))


def _show_nodes(checks: Sequence[Check]) -> Iterator[RenderableType]:
    """Of a cluster: a table of nodes and checks, and below it what was found, each thing once."""
    if not checks:
        return
    nodes, names = (
        list(dict.fromkeys(each)) for each in zip(*((c.node, c.name) for c in checks), strict=True)
    )
    worst: dict[tuple[str, str], str] = {}
    found: dict[tuple[str, str, str], list[str]] = {}
    for check in checks:
        key, mark = (check.node, check.name), _mark(check)
        worst[key] = max(worst.get(key, mark), mark, key=_MARKS.index)
        found.setdefault((mark, check.name, check.message), []).append(check.node)
    rows = [(node, *(worst.get((node, name), "") for name in names)) for node in nodes]
    yield make_line("")
    yield make_table(("node", *names), rows)
    told = [
        (mark, name, "all" if len(where) == len(nodes) else ", ".join(where), message)
        for (mark, name, message), where in found.items()
    ]
    yield make_line("")
    yield make_table(("", "check", "nodes", "found"), told)


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
    """Show only what may be overlooked, once for all nodes that have it; None when there is nothing."""
    found: dict[Check, list[str]] = {}
    for check in checks:
        if not check.passed and check.severity == "warning":
            found.setdefault(replace(check, node=""), []).append(check.node)
    told = (replace(check, node=name_nodes(nodes)) for check, nodes in found.items())
    lines = [make_line(f"{_mark(check)}: {tell_name(check)}: {check.message}") for check in told]
    return stack(*lines) if lines else None


_MARKS: Final = ("ok", "warning", "error")


def _mark(check: Check) -> str:
    return "ok" if check.passed else check.severity


def _verdict(checks: Sequence[Check]) -> tuple[str, str]:
    errors = sum(map(is_refusing, checks))
    warnings = sum(not check.passed and check.severity == "warning" for check in checks)
    if errors and not any(map(is_refusing, leave_out(tuple(checks)))):
        return (
            f"{format_count(errors, 'error')}: a run begins without {name_nodes(find_left_out(checks))}",
            "red",
        )
    if errors:
        return f"{format_count(errors, 'error')}: nothing can run before this is mended", "red"
    if warnings:
        return f"ready to run, with {format_count(warnings, 'warning')}", "yellow"
    return "ready to run", "green"
