"""The agents that lab knows by itself: one YAML file each, in this folder, named like the agent.

Rule: data only. A file that is put here is known; nothing else has to be changed.
"""

from pathlib import Path
from typing import Final

FILES: Final = {path.stem: path for path in sorted(Path(__file__).parent.glob("*.yaml"))}
"""The file of each agent, by its name."""


def __getattr__(name: str) -> Path:
    """Give an agent's file as an attribute, which is what a registry asks for."""
    if name not in FILES:
        raise AttributeError(name)
    return FILES[name]
