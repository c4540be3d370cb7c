"""Models that are no models: for tests and for trying a task out without spending anything.

    mock/echo             says what it was told last
    mock/say=TEXT         says TEXT, always
    mock/fail=STATUS      fails as a provider with this HTTP status would, always
    mock/FILE.json        says what a script tells it to, see `labrunner.experiment.model_script`

What is answered depends on the conversation alone, never on the order in which trials ask.
"""

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from decimal import Decimal
from pathlib import Path
from typing import TypeAlias

from labrunner.errors import InputError
from labrunner.experiment.model_script import (
    Moment,
    Prompter,
    Script,
    ScriptedAnswer,
    describe_miss,
    read_script,
)
from labrunner.solve.models.backend import Backend, ModelRequest, ProviderTrouble
from labrunner.solve.values.messages import (
    ChatMessageAssistant,
    ChatMessageUser,
    ModelOutput,
    ModelUsage,
    ToolCall,
)
from labrunner.solve.values.task_folder import resolve_path

Answering: TypeAlias = Callable[[ModelRequest], ModelOutput | str | Awaitable[ModelOutput | str]]


class MockBackend:
    """Answers with a function."""

    def __init__(self, answer: Answering, name: str) -> None:
        """Take the function; it may be async, and may raise ProviderTrouble."""
        self._answer = answer
        self._name = name

    async def request(self, request: ModelRequest) -> ModelOutput:
        """Ask the function."""
        answer = self._answer(request)
        if inspect.isawaitable(answer):
            answer = await answer
        if isinstance(answer, ModelOutput):
            return answer
        output = ModelOutput.from_content(self._name, answer)
        output.usage = _estimate(request, answer)
        return output

    def bound_cost(self, request: ModelRequest) -> Decimal | None:
        """Nobody knows before what a mock says that it cost."""
        del request
        return None

    def has_price(self) -> bool:
        """What is said costs what the script says."""
        return True

    async def close(self) -> None:
        """Nothing to let go of."""


class ScriptedModel:
    """Answers by a script."""

    def __init__(self, script: Script, name: str) -> None:
        """Take the script."""
        self._prompter = Prompter(script)
        self._name = name

    async def __call__(self, request: ModelRequest) -> ModelOutput:
        """Give the first answer that fits."""
        moment = _find_moment(request)
        if (found := self._prompter.find(moment)) is None:
            raise ProviderTrouble("script", describe_miss(moment), is_transient=False)
        number, answer = found
        if answer.wait_s:
            await asyncio.sleep(answer.wait_s)
        if (fail := self._prompter.find_failure(number, moment)) is not None:
            raise trouble(fail.status, fail.message, fail.retry_after_s)
        calls = [
            ToolCall(f"call_{moment.turn}_{at}", call.function, dict(call.arguments))
            for at, call in enumerate(answer.tool_calls)
        ]
        message = ChatMessageAssistant(answer.text, calls or None, self._name)
        output = ModelOutput(model=self._name, message=message, stop_reason="tool_calls" if calls else "stop")
        output.usage = _usage(answer) or _estimate(request, answer.text)
        return output


def make_mock(text: str) -> Backend:
    """Make the mock that a name asks for."""
    name = f"mock/{text}"
    if text == "echo":
        return MockBackend(_echo, name)
    kind, equals, value = text.partition("=")
    if kind == "say" and equals:
        return MockBackend(lambda _: value, name)
    if kind == "fail" and value.isdecimal():
        return MockBackend(_failing(int(value)), name)
    if (path := find_script(text)) is not None:
        return make_scripted(path, name)
    raise InputError(
        "model", f"there is no mock model {text!r}; there are: echo, say=TEXT, fail=STATUS, or a FILE.json"
    )


def find_script(text: str) -> Path | None:
    """The file that a mock's name stands for: beside the task's, else in the current folder."""
    if not text.endswith(".json"):
        return None
    path = resolve_path(text)
    return path if path.exists() else Path(text).absolute()


def make_scripted(path: Path, name: str) -> Backend:
    """Make the mock that a script speaks for."""
    return MockBackend(ScriptedModel(read_script(path), name), name)


def trouble(status: int, message: str, retry_after_s: float | None = None) -> ProviderTrouble:
    """What a provider's HTTP status means."""
    return ProviderTrouble(
        f"http_{status}",
        f"HTTP status {status}: {message}",
        is_transient=status in {408, 409, 429} or status >= 500,
        retry_after_s=retry_after_s,
    )


def _echo(request: ModelRequest) -> str:
    return request.messages[-1].content if request.messages else ""


def _failing(status: int) -> Answering:
    def fail(request: ModelRequest) -> ModelOutput:
        del request
        raise trouble(status, "as the model's name says")

    return fail


def _find_moment(request: ModelRequest) -> Moment:
    messages = request.messages
    return Moment(
        first=next((each.content for each in messages if isinstance(each, ChatMessageUser)), ""),
        last=messages[-1].content if messages else "",
        turn=sum(isinstance(message, ChatMessageAssistant) for message in messages),
    )


def _usage(answer: ScriptedAnswer) -> ModelUsage | None:
    if not (answer.input_tokens or answer.output_tokens or answer.cost_usd is not None):
        return None
    return ModelUsage(
        input_tokens=answer.input_tokens,
        output_tokens=answer.output_tokens,
        total_tokens=answer.input_tokens + answer.output_tokens,
        cost_usd=answer.cost_usd,
    )


def _estimate(request: ModelRequest, answer: str) -> ModelUsage:
    """Four characters a token: so that limits and reports have something to count."""
    asked = sum(len(message.content) for message in request.messages) // 4 + 1
    said = len(answer) // 4 + 1
    return ModelUsage(input_tokens=asked, output_tokens=said, total_tokens=asked + said)
