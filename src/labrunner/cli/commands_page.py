"""Writes the reference page of the command line from the commands: `python -m labrunner.cli.commands_page`.

Rule: every line comes from what `--help` says, so page and program can't drift.
"""

import importlib
import re
import sys
from collections.abc import Iterator, Mapping
from typing import Any, Final

from labrunner.cli.catalogue import COMMANDS, Command
from labrunner.cli.examples import EXAMPLES
from labrunner.display.decision import DECISION
from labrunner.experiment.options.table import OPTIONS, find_option

_AT_ONCE: Final = find_option("max_concurrency")


def _tell_bare() -> str:
    """Say which options take a value only with `=`."""
    picky = [option for option in OPTIONS if option.bare is not None]
    names = " and ".join(f"`{option.label}`" for option in picky)
    alone = " and ".join(f"`={option.bare}`" for option in picky)
    negated = [
        f"; `{option.negative}` means `{option.label}={option.negated}`" for option in picky if option.negated
    ]
    return (
        f"{names} take a value only with `=`, so that they never swallow the word\n"
        f"behind them. Alone they mean {alone}{''.join(negated)}."
    )


BEFORE: Final = f"""\
# Command line

<!-- Written by `python -m labrunner.cli.commands_page`; edit the commands, not this page. -->

RUN is a path, an id, a unique part of an id, or `last`.

What next, after an end that is not a success:
{DECISION}.

Every option can also be set as a variable: `{_AT_ONCE.label}` as `{_AT_ONCE.variable}`, and so on.
{_tell_bare()}

The exit codes of all commands are listed under [errors](../errors.md#exit-codes)."""

COMMON: Final = "run"
"""The command whose options several others share."""
MANY: Final = 10
_FACTS: Final = re.compile(r"\[([^\]]*(?:env var: \w+|default: [^\]]*|required|x[<>=]+\S+)[^\]]*)\]$")
_TYPES: Final[Mapping[str, str]] = {
    "<str>": "TEXT",
    "<path>": "PATH",
    "<int>": "N",
    "<int range>": "N",
    "<float>": "X",
    "<float range>": "X",
    "<list[str]>": "TEXT",
    "<list[Path]>": "PATH",
}

Word = Any  # typer's commands, contexts and parameters come from its own copy of click, which has no types


def render() -> str:
    """Give the whole page as Markdown."""
    sections = [section for name, command in COMMANDS.items() for section in _sections(name, command)]
    return "\n\n".join([BEFORE, *sections]) + "\n"


def _parts(name: str, command: Command) -> Iterator[tuple[str, Word, Word]]:
    """A command, or each of its subcommands, with its full name and a context to ask it in."""
    from typer.main import get_command

    whole: Word = get_command(importlib.import_module(command.module).app)
    context = whole.make_context(f"lab {name}", [], resilient_parsing=True)
    if not hasattr(whole, "commands"):
        yield f"lab {name}", whole, context
        return
    for inner, part in whole.commands.items():
        asked = part.make_context(inner, [], parent=context, resilient_parsing=True)
        yield f"lab {name} {inner}", part, asked


def _sections(name: str, command: Command) -> Iterator[str]:
    for path, part, context in _parts(name, command):
        arguments = [_row(each, context) for each in part.params if each.param_type_name == "argument"]
        options = [_row(each, context) for each in part.params if each.param_type_name == "option"]
        lines = [f"## {path}", "", part.help]
        if command.aliases:
            lines += ["", f"Also called {', '.join(f'`lab {alias}`' for alias in command.aliases)}."]
        lines += ["", f"    {' '.join([path, *(left for left, _ in arguments), '[OPTIONS]'])}"]
        lines += ["", "For example:", "", *(f"    {example}" for example in EXAMPLES[path])]
        yield "\n".join([*lines, *_tables(name, [*arguments, *options])])


def _tables(name: str, rows: list[tuple[str, str]]) -> list[str]:
    shared = [row for row in _common_rows() if row[0].startswith("--")] if name != COMMON else []
    is_alike = len([row for row in shared if row in rows]) >= MANY
    shown = [row for row in rows if row[0] and not (is_alike and row in shared)]
    cells = [f"| `{_safe(left)}` | {_safe(right).replace('<', '&lt;')} |" for left, right in shown]
    table = ["", "| word | meaning |", "|---|---|", *cells]
    if not is_alike:
        return table
    lacking = [f"`{left.partition(' ')[0]}`" for left, right in shared if (left, right) not in rows]
    but = f", without {', '.join(lacking)}" if lacking else ""
    return [*table, "", f"All other options are those of [lab {COMMON}](#lab-{COMMON}){but}."]


def _safe(cell: str) -> str:
    return cell.replace("|", "\\|")


def _common_rows() -> list[tuple[str, str]]:
    ((_, part, context),) = _parts(COMMON, COMMANDS[COMMON])
    return [_row(each, context) for each in part.params]


def _row(parameter: Word, context: Word) -> tuple[str, str]:
    """A parameter as people write it, and what it means."""
    left, right = parameter.get_help_record(context) or ("", "")  # nothing for a hidden one
    word, _, kind = left.partition(" <")
    if parameter.param_type_name == "argument":
        return _argument(parameter, word), _tell(right)
    written = word if not kind else f"{word} {_TYPES.get(f'<{kind}', kind.removesuffix('>'))}"
    return written, _tell(right)


def _argument(parameter: Word, word: str) -> str:
    """An argument as usage lines have it: in brackets if it may be left out, with dots if it may repeat."""
    written = word if parameter.required else f"[{word}]"
    return f"{written}..." if parameter.nargs == -1 and "..." not in word else written


def _tell(right: str) -> str:
    """The meaning with its default, without what the page says once for all."""
    facts = _FACTS.search(right)
    if facts is None:
        return right
    kept = [fact for fact in facts[1].split("; ") if not fact.startswith(("env var: ", "x>=0"))]
    kept = [fact.replace("x>=", "at least ") for fact in kept]
    return " ".join([right[: facts.start()].strip(), *([f"({', '.join(kept)})"] if kept else [])])


if __name__ == "__main__":
    sys.stdout.write(render())
