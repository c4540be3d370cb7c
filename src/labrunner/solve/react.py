"""A small agent: think, use a tool, look, until an answer is submitted."""

from collections.abc import Callable, Sequence
from typing import Any, Final

from labrunner.solve.messages import ChatMessageSystem, ChatMessageUser, ModelOutput
from labrunner.solve.solver import Generate, Solver, solver
from labrunner.solve.state import TaskState
from labrunner.solve.tool import Tool, as_tool

PROMPT: Final = (
    "You are an agent that solves a task with tools. Work step by step: use a tool, look at its result, go "
    "on. When you are done, call submit with your answer; nothing else ends the task."
)
GO_ON: Final = "Go on with the task. When you are done, call submit with your answer."


@solver
def react(
    *,
    prompt: str | None = PROMPT,
    tools: Sequence[Tool | Callable[..., Any]] = (),
    attempts: int = 50,
    on_continue: str = GO_ON,
) -> Solver:
    """Use tools in a loop until the model submits an answer, at most `attempts` turns."""
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
        for _ in range(attempts):
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
