"""A small agent: think, use a tool, look, until an answer is submitted."""

from collections.abc import Callable, Sequence
from typing import Any, Final

from labrunner.errors import InputError
from labrunner.solve.authoring.solver import Generate, Solver, solver
from labrunner.solve.values.messages import ChatMessageSystem, ChatMessageUser, ModelOutput
from labrunner.solve.values.state import TaskState
from labrunner.solve.values.tool import Tool, as_tool

PROMPT: Final = (
    "You are an agent that solves a task with tools. Work step by step: use a tool, look at its result, go "
    "on. When you are done, call submit with your answer; nothing else ends the task."
)
GO_ON: Final = "Go on with the task. When you are done, call submit with your answer."


@solver
def react(  # noqa: PLR0913 - names that people bring with them
    *,
    name: str | None = None,
    description: str | None = None,
    prompt: str | None = PROMPT,
    tools: Sequence[Tool | Callable[..., Any]] = (),
    attempts: int = 1,
    on_continue: str = GO_ON,
    max_turns: int = 200,
) -> Solver:
    """Use tools in a loop until the model submits an answer, at most `max_turns` turns.

    `name` and `description` are for the record. The first answer that is submitted counts: scoring happens
    once, behind the barrier, so there are no further `attempts`.
    """
    del name, description
    if attempts != 1:
        raise InputError(
            "react",
            f"attempts={attempts}: the first answer that is submitted counts, since scoring happens once, "
            "behind the barrier; to limit turns: max_turns=...",
        )
    given = [as_tool(each) for each in tools]

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        submitted: list[str] = []

        async def submit(answer: str) -> str:
            """Submit the answer; this ends the task.

            Args:
                answer: The answer.
            """
            submitted.append(answer)
            return answer

        if prompt:
            state.messages.insert(0, ChatMessageSystem(prompt))
        state.tools = [*given, Tool("submit", submit)]
        for _ in range(max_turns):
            state = await generate(state, "single")
            if submitted:
                state.output = ModelOutput.from_content(state.output.model, submitted[-1])
                break
            if state.output.stop_reason == "model_length":
                break
            if not state.output.message.tool_calls:
                state.messages.append(ChatMessageUser(on_continue))
        return state

    return solve
