"""What is told of an agent that is known by name: which release of it, with which model and settings."""

from collections.abc import Sequence

from rich.console import RenderableType

from labrunner.display.text.console import make_line, make_table, stack
from labrunner.experiment.resolved import Agent


def describe_named(agent: Agent) -> str:
    """An agent that is known by name in one line: release, model, settings, digest; nothing for any other."""
    named = agent.named
    if named is None:
        return ""
    what = f"{named.name} {named.version}" if named.version else named.name
    settings = [f"{name} {text}" for name, text in named.settings.items() if name != "system_prompt"]
    if "system_prompt" in named.settings:
        settings.append("a system prompt of its own")
    digest = [] if agent.dir is None else [agent.dir.digest[:19]]
    return ", ".join([what, *([named.model] if named.model else []), *settings, *digest])


def show_named(agents: Sequence[tuple[str, Agent]]) -> RenderableType | None:
    """Show which agent each of several variants is; nothing where none is known by name."""
    if not agents:
        return None
    return stack(
        make_line(""),
        make_table(("variant", "agent"), [(name, describe_named(each)) for name, each in agents]),
    )
