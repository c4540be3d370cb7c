"""How far a container is when the note that says so may be forged: by what its wrapper said aloud.

The wrapper says each phase on standard output before it begins, and the engine keeps that. Where an agent
shares the wrapper's user, the wrapper closes its streams before the agent begins: it can change the note, but
neither say more, nor flood what was said away.
"""

from dataclasses import replace
from typing import Final

from labrunner.sandbox.docker.engine.client import Engine
from labrunner.sandbox.docker.engine.reconnect import outlast
from labrunner.sandbox.docker.wrapper.notes import Note

BEFORE: Final = frozenset({b"", b"setup\n", b"setup\ngate\n", b"setup\nfailed\n"})
"""What can have been said when no agent has begun."""


def doubt(note: Note, *, is_alive: bool) -> Note:
    """A note of a life in which the agent could forge every one: of that, it tells at most that it has ended.

    While its container lives, an agent that says it has ended has not.
    """
    if not note.is_certain:
        return note
    if is_alive:
        return Note(phase="none", facts=note.facts)
    facts = {name: value for name, value in note.facts.items() if name != "try"}
    return note if note.phase == "failed" else replace(note, phase="barrier", facts=facts)


async def check_note(engine: Engine, container: str, note: Note) -> Note:
    """A note as it is, or as it must have been: an agent that has begun is the agent's phase."""
    if note.phase in {"agent", "barrier", "grader", "graded"}:
        return note
    said = await outlast(lambda: engine.said(container))
    return replace(note, phase="agent", is_certain=False) if has_agent_begun(said) else note


def has_agent_begun(said: bytes) -> bool:
    """Whether an agent was started: nothing else says other words, or so many that the first are gone."""
    return said not in BEFORE
