"""How far a container is when the note that says so may be forged: by what its wrapper said aloud.

The wrapper says each phase on standard output before it begins, and the engine keeps that. An agent that
shares the wrapper's user can change the note, and say more; it can't unsay that it was started.
"""

from dataclasses import replace
from typing import Final

from labrunner.sandbox.docker.engine import Engine
from labrunner.sandbox.docker.notes import Note
from labrunner.sandbox.docker.patience import outlast

BEFORE: Final = frozenset({b"", b"setup", b"gate"})
"""What can have been said when no agent has begun."""


async def check_note(engine: Engine, container: str, note: Note) -> Note:
    """A note as it is, or as it must have been: an agent that has begun is the agent's phase."""
    if note.is_certain or note.phase == "agent":
        return note
    said = await outlast(lambda: engine.said(container))
    return replace(note, phase="agent") if has_agent_begun(said) else note


def has_agent_begun(said: bytes) -> bool:
    """Whether an agent was started: nothing else says other words, or so many that the first are gone."""
    return any(line not in BEFORE for line in said.split(b"\n"))
