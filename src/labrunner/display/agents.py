"""What `lab agents` prints: agents that are known by name, and what of them is installed."""

from collections.abc import Sequence
from typing import Final

from rich.console import RenderableType

from labrunner.display.text.console import make_fields, make_line, make_table, stack
from labrunner.display.text.quantities import format_size
from labrunner.experiment.agents.agent_file import AgentFile
from labrunner.experiment.agents.installed import InstalledAgent

_RUNS: Final = {"solution": "each task's own solution", "nothing": "nothing"}


def show_agents(
    known: Sequence[tuple[str, str, AgentFile]], installed: Sequence[InstalledAgent]
) -> RenderableType:
    """Show one line for each agent."""
    rows = [
        (name, file.version or "", ", ".join(file.dialects), _list_versions(name, installed), file.about)
        for name, _, file in known
    ]
    names = {name for name, _, _ in known}
    others = [found for found in installed if found.name not in names]
    rows += [(found.name, "", "", found.version, "from a file of somebody's own") for found in others]
    return make_table(("agent", "release", "speaks", "installed", "about"), rows)


def show_agent(name: str, file: AgentFile, installed: Sequence[InstalledAgent]) -> RenderableType:
    """Show one agent."""
    install = file.install
    package = "" if install is None else f"npm {install.npm}" if install.npm else f"PyPI {install.pypi}"
    told = [
        f"{setting} ({', '.join(part.values)})" if part.values else setting
        for setting, part in file.settings.items()
    ]
    fields = [
        ("about", file.about),
        ("release", file.version or ""),
        ("package", package),
        ("speaks", ", ".join(file.dialects)),
        ("can be told", ", ".join([*(["model"] if file.dialects else []), *told, *_also(file)])),
        ("command", " ".join(file.command)),
        ("runs", _RUNS.get(file.runs or "", "")),
    ]
    rows = [
        (found.version, format_size(found.bytes), f"{found.files:,}", found.digest[:19], found.installed_at)
        for found in installed
    ]
    return stack(
        make_line(name),
        make_fields([(field, value) for field, value in fields if value]),
        make_line(""),
        make_table(("installed", "size", "files", "digest", "at"), rows)
        if rows
        else make_line("not installed" if file.install is not None else "needs no installing"),
    )


def _also(file: AgentFile) -> list[str]:
    return [] if file.runs is not None else ["args", "files"]


def _list_versions(name: str, installed: Sequence[InstalledAgent]) -> str:
    return ", ".join(found.version for found in installed if found.name == name)
