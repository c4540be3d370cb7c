"""`lab agents`: agents that are known by name, and what of them is installed on this host."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from labrunner.cli.pieces import Json, make_app
from labrunner.depot.installation import install, remove
from labrunner.display.agents import show_agent, show_agents
from labrunner.display.text.console import make_console
from labrunner.display.text.saying import say, say_aside
from labrunner.errors import InputError
from labrunner.experiment.agents.agent_file import AgentFile
from labrunner.experiment.agents.furnished import name_agent
from labrunner.experiment.agents.installed import InstalledAgent, Release, check_installed, list_installed
from labrunner.experiment.agents.known_agents import AGENTS, read_agent
from labrunner.experiment.authoring.problems import Problems
from labrunner.records.encoding import canonical

app = make_app()

VARIABLES = {"auto_envvar_prefix": "LAB"}
"""Without this a variable would have to name the subcommand, too."""
_Agent = Annotated[str, typer.Argument(metavar="NAME", help="a known name, or the path of an agent's file")]
_Releases = Annotated[
    list[str],
    typer.Argument(metavar="NAME[==VERSION]", help="without a version, the one that its file names"),
]
_Check = Annotated[bool, typer.Option("--check", help="read all files again, and say what was changed")]


@app.callback(help="Agents that are known by name, and what of them is installed on this host.")
def agents() -> None:
    """Group the commands below."""


@app.command("list", context_settings=VARIABLES, help="List agents, and what is installed.")
def list_(check: _Check = False, as_json: Json = False) -> None:
    """List agents."""
    installed = [found for _, found in list_installed()]
    known = [(each.name, each.origin, _read(each.name)) for each in AGENTS.list_known() if not each.problem]
    problems = _check_all(installed) if check else Problems()
    if as_json:
        told = {
            "known": [
                {"name": name, "origin": origin, "about": file.about, "version": file.version}
                for name, origin, file in known
            ],
            "installed": [_plain(found) for found in installed],
        }
        sys.stdout.write(canonical.encode_line(told).decode())
    else:
        make_console().print(show_agents(known, installed))
    problems.stop_if_any()


@app.command(
    "show", context_settings=VARIABLES, help="Show an agent: what it can be told, what is installed."
)
def show_(name: _Agent, as_json: Json = False) -> None:
    """Show one agent."""
    file = _read(name)
    installed = [found for _, found in list_installed() if found.name == name_agent(name)]
    if as_json:
        told = {
            "name": name_agent(name),
            "file": file.model_dump(mode="json", exclude_unset=True),
            "installed": [_plain(found) for found in installed],
        }
        sys.stdout.write(canonical.encode_line(told).decode())
    else:
        make_console().print(show_agent(name_agent(name), file, installed))


@app.command("install", context_settings=VARIABLES, help="Install agents from their registries, once.")
def install_(releases: _Releases) -> None:
    """Install releases."""
    for release in [_find_release(text) for text in releases]:
        found = install(release, say_aside)
        say(f"{found.label}  {found.digest}  {found.tree}")


@app.command("remove", context_settings=VARIABLES, help="Remove what is installed of an agent.")
def remove_(releases: _Releases) -> None:
    """Remove releases; of an agent without a version, all."""
    for text in releases:
        use, _, version = text.partition("==")
        chosen = [
            (path, found)
            for path, found in list_installed()
            if found.name == name_agent(use) and version in ("", found.version)
        ]
        if not chosen:
            known = ", ".join(found.label for _, found in list_installed()) or "nothing"
            raise InputError(text, f"is not installed; installed: {known}")
        for path, found in chosen:
            remove(path, found)
            say(f"removed {found.label}")


def _check_all(installed: Sequence[InstalledAgent]) -> Problems:
    """Read all files of all agents again; every one that is not what it was is a problem."""
    problems = Problems()
    for found in installed:
        try:
            check_installed(found, anew=True)
        except InputError as error:
            problems.take(error)
    return problems


def _read(use: str) -> AgentFile:
    problems = Problems()
    found = read_agent(use, Path(), use, problems)
    problems.stop_if_any()
    if found is None:
        raise AssertionError("an agent's file that can't be read has a problem")
    return found.part


def _find_release(text: str) -> Release:
    use, _, version = text.partition("==")
    file = _read(use)
    if file.install is None:
        raise InputError(use, "brings nothing that is installed: its file has no `install`")
    version = version or file.version or ""
    if not version:
        raise InputError(use, f"its file names no version; write one: lab agents install {use}==1.2.3")
    release = Release(name=name_agent(use), version=version, install=file.install, use=use)
    if (told := release.unfit()) is not None:
        raise InputError(text, f"the version {told}")
    return release


def _plain(found: InstalledAgent) -> dict[str, object]:
    return {
        "name": found.name,
        "version": found.version,
        "digest": found.digest,
        "path": str(found.tree),
        "files": found.files,
        "bytes": found.bytes,
        "installed_at": found.installed_at,
    }
