"""`lab init`: writes a small runnable experiment with the sandbox that works here."""

import re
import shlex
from collections.abc import Iterator
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Annotated, Final

import typer

from labrunner.cli.pieces import make_app
from labrunner.display.text.saying import say
from labrunner.errors import InputError
from labrunner.experiment.options.table import flag
from labrunner.experiment.sandbox_kinds import BUBBLEWRAP, PROCESS
from labrunner.files.durable import storing
from labrunner.sandbox.bubblewrap.program import works_here

app = make_app()

NEXT: Final = {
    "minimal": "lab run",
    "ab": "lab run",
    "docker": "lab run",
    "agent": "lab run",
    "python": f"lab run files.py {flag('model')} mock/answers.json",
}
"""The templates, and what runs each as it is."""
SANDBOX: Final = "@SANDBOX@"
"""Stands in templates for the kind of sandbox that works here."""
OPEN: Final = "@OPEN@"
"""Stands in a network for what the kind that works here leaves open beside it."""

_Dir = Annotated[Path, typer.Argument(metavar="DIR", help="where to write it")]
_Template = Annotated[
    str,
    typer.Option(
        help="minimal: one agent; ab: two versions compared; docker: in containers; "
        "agent: one that calls a model; python: a task written in Python, and a model"
    ),
]


@app.command(help="Write a small runnable experiment with the sandbox that works here.")
def init(directory: _Dir = Path(), template: _Template = "minimal") -> None:
    """Write a template's files; nothing is overwritten."""
    files = dict(_files(_template(template)))
    works, reason = works_here()
    kind = BUBBLEWRAP if works else PROCESS
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", directory.resolve().name).strip("-.") or "experiment"
    with storing("writing an experiment to", directory):
        taken = [name for name in files if (directory / name).exists()]
        if taken:
            raise InputError(str(directory / taken[0]), "is there already; choose another folder")
        for path, text in files.items():
            target = directory / path
            target.parent.mkdir(parents=True, exist_ok=True)
            filled = text.replace("@NAME@", name).replace(SANDBOX, kind)
            target.write_text(filled.replace(OPEN, "" if works else ", allow: full"), encoding="utf-8")
    say(f"wrote {len(files)} files to {directory}")
    if not works and any(SANDBOX in text for text in files.values()):
        say(f"{BUBBLEWRAP} does not work here ({reason}), so it uses the sandbox `{PROCESS}`: no isolation")
    where = "" if directory == Path() else f"cd {shlex.quote(str(directory))} && "
    say(f"next: {where}{NEXT[template]}")


def _template(name: str) -> Traversable:
    if name not in NEXT:
        raise InputError("--template", f"there is no template {name!r}; there are: {', '.join(NEXT)}")
    return resources.files("labrunner.cli") / "templates" / name


def _files(folder: Traversable, prefix: str = "") -> Iterator[tuple[str, str]]:
    for entry in sorted(folder.iterdir(), key=lambda each: each.name):
        if entry.name == "__pycache__":
            continue
        if entry.is_dir():
            yield from _files(entry, f"{prefix}{entry.name}/")
        else:
            yield f"{prefix}{entry.name}", entry.read_text(encoding="utf-8")
