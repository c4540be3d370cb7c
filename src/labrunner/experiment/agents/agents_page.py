"""Writes the tables of an agent's file from its models.

`python -m labrunner.experiment.agents.agents_page`.
"""

import sys
from collections.abc import Mapping
from typing import Final

from labrunner.experiment.agents.agent_file import AgentFile, InstallPart, ProgramPart, SettingPart
from labrunner.experiment.authoring.experiment_page import write_section
from labrunner.experiment.authoring.part import Part

SECTIONS: Final[Mapping[type[Part], str]] = {
    AgentFile: "Fields of an agent's file",
    InstallPart: "install",
    ProgramPart: "a program of install",
    SettingPart: "a setting",
}


def render() -> str:
    """Give the tables as Markdown."""
    return "\n\n".join(
        write_section(model, title).replace("## ", "### ", 1) for model, title in SECTIONS.items()
    )


if __name__ == "__main__":
    sys.stdout.write(render())
