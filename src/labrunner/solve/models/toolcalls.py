"""Running the tools that a model asks for. What a tool can't do the model is told; a bug fails the trial."""

import asyncio
import inspect
import json
import time
from collections.abc import Sequence
from typing import Any

from labrunner.errors import AttemptFailed
from labrunner.solve.authoring.solver import is_async
from labrunner.solve.models.surroundings import running
from labrunner.solve.values.messages import ChatMessageAssistant, ChatMessageTool, ToolCall, ToolCallError
from labrunner.solve.values.meter import LimitExceeded
from labrunner.solve.values.tool import MAX_OUTPUT, Tool, ToolError


async def execute_tools(
    message: ChatMessageAssistant, tools: Sequence[Tool], max_output: int = MAX_OUTPUT
) -> list[ChatMessageTool]:
    """Run the tools that an answer asks for, in its order."""
    return [await _answer(call, tools, max_output) for call in message.tool_calls or ()]


async def _answer(call: ToolCall, tools: Sequence[Tool], max_output: int) -> ChatMessageTool:
    transcript, started = running().transcript, time.monotonic()
    transcript.add("tool_call", id=call.id, function=call.function, arguments=call.arguments)
    content, error = await _outcome(call, tools)
    told = ChatMessageTool(transcript.shorten(content, max_output), call.id, call.function, error)
    transcript.add(
        "tool",
        id=call.id,
        function=call.function,
        result=transcript.number([told])[0],
        seconds=round(time.monotonic() - started, 6),
    )
    return told


async def _outcome(call: ToolCall, tools: Sequence[Tool]) -> tuple[str, ToolCallError | None]:
    """A tool's result, or why there is none that a model can be told."""
    if call.parse_error is not None:
        return "", ToolCallError("parsing", call.parse_error)
    tool = next((each for each in tools if each.name == call.function), None)
    if tool is None:
        known = ", ".join(each.name for each in tools) or "none"
        return "", ToolCallError("unknown", f"there is no tool {call.function!r}; there are: {known}")
    try:
        return _text(await _invoke(tool, call)), None
    except (AttemptFailed, LimitExceeded):
        raise
    except TimeoutError as error:
        return "", ToolCallError("timeout", str(error) or "the command ran into its time limit")
    except ToolError as error:
        return "", ToolCallError("tool", str(error))
    except PermissionError as error:
        return "", ToolCallError("permission", str(error))
    except (FileNotFoundError, IsADirectoryError, UnicodeDecodeError) as error:
        return "", ToolCallError("file", str(error))
    except _ArgumentsRefused as error:
        return "", ToolCallError("parsing", str(error))


class _ArgumentsRefused(Exception):
    """A model's arguments are not what the tool takes."""


async def _invoke(tool: Tool, call: ToolCall) -> Any:  # noqa: ANN401 - the author's own
    from pydantic import ValidationError

    try:
        if is_async(tool.call):
            result = tool.invoke(call.arguments)
        else:
            result = await asyncio.to_thread(tool.invoke, call.arguments)
    except ValidationError as error:
        problems = "; ".join(f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors())
        raise _ArgumentsRefused(f"the arguments of {tool.name} are wrong: {problems}") from error
    return await result if inspect.isawaitable(result) else result


def _text(result: object) -> str:
    if isinstance(result, str):
        return result
    if result is None:
        return ""
    try:
        return json.dumps(result, ensure_ascii=False)
    except (TypeError, ValueError):
        return str(result)
