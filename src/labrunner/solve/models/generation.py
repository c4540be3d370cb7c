"""Asking the trial's model: what solvers are handed as `generate`, tool loop included."""

from typing import Any, Literal

from labrunner.solve.authoring.solver import ToolCalls
from labrunner.solve.models.asking import get_model
from labrunner.solve.models.surroundings import running
from labrunner.solve.models.toolcalls import execute_tools
from labrunner.solve.values.config import make_config
from labrunner.solve.values.messages import ChatMessageTool
from labrunner.solve.values.state import TaskState


async def generate_state(
    state: TaskState,
    tool_calls: ToolCalls = "loop",
    **settings: Any,  # noqa: ANN401 - fields of GenerateConfig
) -> TaskState:
    """Ask the model; with `loop`, run the tools that it asks for until it asks for none."""
    config, model, attempt = make_config(settings, "generate"), get_model(), running()
    while True:
        attempt.meter.check_messages(len(state.messages))
        choice = _next_choice(state)
        state.output = await model.generate(state.messages, state.tools, choice, config)
        state.messages.append(state.output.message)
        calls = state.output.message.tool_calls
        if not calls or tool_calls == "none":
            return state
        state.messages += await execute_tools(state.output.message, state.tools)
        if tool_calls == "single":
            return state


def _next_choice(state: TaskState) -> str | None:
    """What the model is told about its choice; a tool that was demanded and has been run is not again."""
    choice = state.tool_choice
    answered = bool(state.messages) and isinstance(state.messages[-1], ChatMessageTool)
    free: Literal["auto"] = "auto"
    return free if answered and choice not in {None, "auto", "none"} else choice
