"""A conversation that repeats itself, and where its transcript lies."""

from pathlib import Path
from typing import Any

from labrunner.solve.authoring.solver import Generate
from labrunner.solve.values.messages import ChatMessageUser
from labrunner.solve.values.state import TaskState


def repeating(turns: int) -> Any:
    """A solver that says the same again and again."""

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        for _ in range(turns):
            state = await generate(state)
            state.messages.append(ChatMessageUser("and now?"))
        return state

    return solve


def transcript_of(folder: str) -> Path:
    (path,) = Path(folder).glob("trials/*/1/transcript.jsonl")
    return path
