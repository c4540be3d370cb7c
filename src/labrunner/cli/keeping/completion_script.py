"""`lab completion`: prints a script with which a shell completes commands, options and runs.

Rule: the script holds all words that it needs, so that pressing a key starts no Python.
"""

import importlib
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal

import typer

from labrunner.cli.catalogue import COMMANDS
from labrunner.cli.pieces import make_app

app = make_app()

_Shell = Annotated[Literal["bash", "zsh", "fish"], typer.Argument(metavar="bash|zsh|fish", help="your shell")]
BASH: Final = """\
_lab() {{
    local word=${{COMP_WORDS[COMP_CWORD]}} options='' others='' runs=''
    if [ "$COMP_CWORD" -eq 1 ]; then
        COMPREPLY=($(compgen -W "{commands}" -- "$word"))
        return
    fi
    case ${{COMP_WORDS[1]}} in
{cases}
    esac
    case $word in
        -*) COMPREPLY=($(compgen -W "$options" -- "$word")) ;;
        *)
            [ -n "$runs" ] && others="$others $(ls .lab/runs 2>/dev/null)"
            COMPREPLY=($(compgen -W "$others" -- "$word"))
            ;;
    esac
}}
complete -o default -F _lab lab
"""
ZSH: Final = "autoload -U +X compinit && compinit\nautoload -U +X bashcompinit && bashcompinit\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Words:
    """What may follow a command."""

    options: tuple[str, ...]
    others: tuple[str, ...]
    """Subcommands, and `last` where runs are named."""
    takes_runs: bool


Word = Any  # typer's commands and parameters come from its own copy of click, which has no types


@app.command(help="Print a script that completes commands, options and runs in your shell.")
def completion(shell: _Shell) -> None:
    """Print the script."""
    sys.stdout.write(_fish() if shell == "fish" else f"{ZSH if shell == 'zsh' else ''}{_bash()}")


def _bash() -> str:
    cases = [
        f"        {'|'.join(_spellings(name))}) options='{' '.join(words.options)}'"
        f"{' others=' + repr(' '.join(words.others)) if words.others else ''}"
        f"{' runs=1' if words.takes_runs else ''} ;;"
        for name, words in _words().items()
    ]
    names = [word for name in COMMANDS for word in _spellings(name)]
    return BASH.format(commands=" ".join(names), cases="\n".join(cases))


def _fish() -> str:
    lines = ["complete -c lab -f"]
    for name, command in COMMANDS.items():
        told = command.does.replace("'", "\\'")
        first = "complete -c lab -n __fish_use_subcommand"
        lines += [f"{first} -a {word} -d '{told}'" for word in _spellings(name)]
    for name, words in _words().items():
        seen = f"complete -c lab -n '__fish_seen_subcommand_from {' '.join(_spellings(name))}'"
        lines += [f"{seen} -l {word[2:]}" for word in words.options if word.startswith("--")]
        lines += [f"{seen} -a '{' '.join(words.others)}'"] if words.others else []
        lines += [f"{seen} -a '(command ls .lab/runs 2>/dev/null)'"] if words.takes_runs else [f"{seen} -F"]
    return "\n".join(lines) + "\n"


def _spellings(name: str) -> tuple[str, ...]:
    return (name, *COMMANDS[name].aliases)


def _words() -> Mapping[str, Words]:
    return {name: _words_of(name) for name in COMMANDS}


def _words_of(name: str) -> Words:
    from typer.main import get_command

    whole: Word = get_command(importlib.import_module(COMMANDS[name].module).app)
    parts = getattr(whole, "commands", {"": whole})
    params = [param for part in parts.values() for param in part.params]
    shown = [param for param in params if param.param_type_name == "option" and not param.hidden]
    takes_runs = any("RUN" in (param.metavar or "") for param in params)
    return Words(
        options=tuple(sorted({"--help", *(word for param in shown for word in param.opts)})),
        others=(*(part for part in parts if part), *(("last",) if takes_runs else ())),
        takes_runs=takes_runs,
    )
