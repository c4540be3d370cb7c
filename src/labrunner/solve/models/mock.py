"""Models that are no models: for tests and for trying a task out without spending anything.

    mock/echo             says what it was told last
    mock/say=TEXT         says TEXT, always
    mock/fail=STATUS      fails as a provider with this HTTP status would, always
    mock/FILE.json        says what a script tells it to, see `Script`

What is answered depends on the conversation alone, never on the order in which trials ask.
"""

import asyncio
import inspect
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeAlias

import msgspec

from labrunner.errors import InputError
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


class ScriptedCall(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A tool that a scripted answer asks for."""

    function: str
    arguments: dict[str, Any] = {}  # any JSON: the tool's own


class ScriptedFailure(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How a scripted request fails."""

    status: int
    times: int | None = None
    """How often for each sample, before it goes well; None: always."""
    retry_after_s: float | None = None
    message: str = "as the script says"


class ScriptedAnswer(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One answer, and when it is given: the first one that fits is."""

    when: str | None = None
    """Text that the last message holds."""
    sample: str | None = None
    """Text that the first user message holds."""
    turn: int | None = None
    """How many answers there were before, from 0."""
    text: str = ""
    tool_calls: tuple[ScriptedCall, ...] = ()
    fail: ScriptedFailure | None = None
    wait_s: float = 0.0
    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float | None = None


class Script(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A mock model's script: a JSON file `{"answers": [...]}`."""

    answers: tuple[ScriptedAnswer, ...]


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

    def has_price(self) -> bool:
        """What is said costs what the script says."""
        return True

    async def close(self) -> None:
        """Nothing to let go of."""


class ScriptedModel:
    """Answers by a script."""

    def __init__(self, script: Script, name: str) -> None:
        """Take the script."""
        self._script = script
        self._name = name
        self._failed: Counter[tuple[int, str]] = Counter()

    async def __call__(self, request: ModelRequest) -> ModelOutput:
        """Give the first answer that fits."""
        number, answer = self._find(request)
        if answer.wait_s:
            await asyncio.sleep(answer.wait_s)
        if answer.fail is not None and self._fails(number, answer.fail, request):
            raise trouble(answer.fail.status, answer.fail.message, answer.fail.retry_after_s)
        calls = [
            ToolCall(f"call_{_turn(request)}_{at}", call.function, dict(call.arguments))
            for at, call in enumerate(answer.tool_calls)
        ]
        message = ChatMessageAssistant(answer.text, calls or None, self._name)
        output = ModelOutput(model=self._name, message=message, stop_reason="tool_calls" if calls else "stop")
        output.usage = _usage(answer) or _estimate(request, answer.text)
        return output

    def _find(self, request: ModelRequest) -> tuple[int, ScriptedAnswer]:
        last = request.messages[-1].content if request.messages else ""
        first, turn = _first_user(request), _turn(request)
        for number, answer in enumerate(self._script.answers):
            if (
                (answer.when is None or answer.when in last)
                and (answer.sample is None or answer.sample in first)
                and (answer.turn is None or answer.turn == turn)
            ):
                return number, answer
        raise ProviderTrouble(
            "script", f"the script has no answer for turn {turn} after {last[:80]!r}", is_transient=False
        )

    def _fails(self, number: int, failure: ScriptedFailure, request: ModelRequest) -> bool:
        key = (number, _first_user(request))
        self._failed[key] += 1
        return failure.times is None or self._failed[key] <= failure.times


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
    if text.endswith(".json"):
        path = resolve_path(text)
        script = read_script(path if path.exists() else Path(text))
        return MockBackend(ScriptedModel(script, name), name)
    raise InputError(
        "model", f"there is no mock model {text!r}; there are: echo, say=TEXT, fail=STATUS, or a FILE.json"
    )


def read_script(path: Path) -> Script:
    """Read a script."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=Script)
    except OSError as error:
        told = f"the script of a mock model can't be read, {path.resolve()}"
        raise InputError(str(path), f"{told}: {error.strerror}") from error
    except msgspec.DecodeError as error:
        raise InputError(str(path), f"is no script of a mock model: {error}") from error


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


def _first_user(request: ModelRequest) -> str:
    return next((each.content for each in request.messages if isinstance(each, ChatMessageUser)), "")


def _turn(request: ModelRequest) -> int:
    return sum(isinstance(message, ChatMessageAssistant) for message in request.messages)


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
