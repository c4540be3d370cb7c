"""What is said in a trial: messages, tool calls, and what a model answered.

Shapes that people bring with them, so they are open: solvers append to, edit and replace messages. Content is
text. `to_plain` and `from_plain` are the one way into transcripts and datasets and back.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, TypeAlias, assert_never
from uuid import uuid4

from labrunner.solve.values.plain import as_number

Role: TypeAlias = Literal["system", "user", "assistant", "tool"]
StopReason: TypeAlias = Literal[
    "stop", "max_tokens", "model_length", "tool_calls", "content_filter", "unknown"
]


@dataclass(slots=True)
class ToolCall:
    """A model asks for a tool."""

    id: str
    function: str
    arguments: dict[str, Any] = field(default_factory=dict)  # any JSON: the model's own
    parse_error: str | None = None
    """Why the model's arguments can't be used, when they can't."""


@dataclass(slots=True)
class ToolCallError:
    """Why a tool gave no result. The model is told."""

    type: Literal["timeout", "unknown", "parsing", "permission", "limit", "file", "tool"]
    message: str


@dataclass(slots=True)
class _Spoken:
    """What every message has: its content, also under its other name."""

    content: str

    @property
    def text(self) -> str:
        """The content."""
        return self.content

    @text.setter
    def text(self, value: str) -> None:
        self.content = value


@dataclass(slots=True)
class ChatMessageSystem(_Spoken):
    """What the model is told to be."""

    role: ClassVar[Role] = "system"


@dataclass(slots=True)
class ChatMessageUser(_Spoken):
    """What the model is asked."""

    role: ClassVar[Role] = "user"


@dataclass(slots=True)
class ChatMessageAssistant(_Spoken):
    """What the model answered."""

    content: str = ""
    tool_calls: list[ToolCall] | None = None
    model: str | None = None
    reasoning: str | None = None
    native: object = field(default=None, repr=False, compare=False)
    """The answer as its provider's client gave it: some must get it back as it was."""
    role: ClassVar[Role] = "assistant"


@dataclass(slots=True)
class ChatMessageTool(_Spoken):
    """What a tool gave back."""

    tool_call_id: str | None = None
    function: str | None = None
    error: ToolCallError | None = None
    role: ClassVar[Role] = "tool"


ChatMessage: TypeAlias = ChatMessageSystem | ChatMessageUser | ChatMessageAssistant | ChatMessageTool


@dataclass(slots=True, kw_only=True)
class ModelUsage:
    """What one answer, or many, took."""

    input_tokens: int = 0
    output_tokens: int = 0
    total_tokens: int = 0
    input_tokens_cache_read: int = 0
    input_tokens_cache_write: int = 0
    reasoning_tokens: int = 0
    cost_usd: float | None = None
    """None where nobody knows the price."""

    def __add__(self, other: "ModelUsage") -> "ModelUsage":
        """Sum both; a cost that is known on one side only is that one."""
        costs = [each for each in (self.cost_usd, other.cost_usd) if each is not None]
        return ModelUsage(
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            total_tokens=self.total_tokens + other.total_tokens,
            input_tokens_cache_read=self.input_tokens_cache_read + other.input_tokens_cache_read,
            input_tokens_cache_write=self.input_tokens_cache_write + other.input_tokens_cache_write,
            reasoning_tokens=self.reasoning_tokens + other.reasoning_tokens,
            cost_usd=sum(costs) if costs else None,
        )


@dataclass(slots=True, kw_only=True)
class ModelOutput:
    """A model's answer with how it came about."""

    model: str = ""
    message: ChatMessageAssistant = field(default_factory=ChatMessageAssistant)
    stop_reason: StopReason = "stop"
    usage: ModelUsage | None = None
    time: float | None = None
    """Seconds that the request took, without waiting for a place or for retries."""
    price_source: str | None = None
    """By whose word it costs what it does; None where nobody knows a price."""
    priced_on: str | None = None
    """The day for which the price was looked up."""

    @property
    def completion(self) -> str:
        """The answer's text."""
        return self.message.content

    @completion.setter
    def completion(self, value: str) -> None:
        self.message.content = as_text(value)

    @property
    def choices(self) -> "list[ModelOutput]":
        """The answer as a list of one: each has a `message` and a `stop_reason`."""
        return [self]

    @property
    def empty(self) -> bool:
        """Whether there is neither text nor a tool call."""
        return not self.message.content and not self.message.tool_calls

    @classmethod
    def from_content(cls, model: str, content: str, stop_reason: StopReason = "stop") -> "ModelOutput":
        """Make an answer of a text."""
        return cls(
            model=model, message=ChatMessageAssistant(content=content, model=model), stop_reason=stop_reason
        )

    @classmethod
    def for_tool_call(
        cls, model: str, tool_name: str, tool_arguments: Mapping[str, Any], content: str = ""
    ) -> "ModelOutput":
        """Make an answer that asks for one tool."""
        call = ToolCall(id=f"call_{uuid4().hex[:12]}", function=tool_name, arguments=dict(tool_arguments))
        message = ChatMessageAssistant(content=content, tool_calls=[call], model=model)
        return cls(model=model, message=message, stop_reason="tool_calls")


def as_text(value: object) -> str:
    """What a message may say: text, or a number, which is written out. Raises TypeError."""
    if isinstance(value, str):
        return str.__str__(value)
    number = as_number(value)
    if number is None:
        raise TypeError(f"a message's content must be text, found {type(value).__name__}")
    return str(number)


def mend(message: ChatMessageAssistant) -> None:
    """Put question marks for half characters: a cut answer may hold some, and nothing can send them."""
    message.content = _mended(message.content)
    for call in message.tool_calls or ():
        call.arguments = _mended(call.arguments)


def _mended(value: Any) -> Any:  # noqa: ANN401 - any JSON
    match value:
        case str():
            return value if value.isascii() else value.encode(errors="replace").decode()
        case dict():
            return {_mended(name): _mended(each) for name, each in value.items()}
        case list():
            return [_mended(each) for each in value]
        case _:
            return value


def to_plain(message: ChatMessage) -> dict[str, Any]:
    """A message as plain JSON."""
    match message:
        case ChatMessageSystem() | ChatMessageUser():
            return {"role": message.role, "content": message.content}
        case ChatMessageAssistant():
            return _assistant_to_plain(message)
        case ChatMessageTool():
            plain: dict[str, Any] = {"role": "tool", "content": message.content}
            plain |= _given(tool_call_id=message.tool_call_id, function=message.function)
            if message.error is not None:
                plain["error"] = {"type": message.error.type, "message": message.error.message}
            return plain
        case _:
            assert_never(message)


def from_plain(plain: Mapping[str, Any]) -> ChatMessage:
    """Take a message back. Raises ValueError, saying what is wrong."""
    content = plain.get("content", "")
    if not isinstance(content, str):
        raise ValueError(f"a message's content must be text, found {type(content).__name__}")  # noqa: TRY004
    match plain.get("role"):
        case "system":
            return ChatMessageSystem(content)
        case "user":
            return ChatMessageUser(content)
        case "assistant":
            calls = [_call_from_plain(call) for call in plain.get("tool_calls") or ()]
            return ChatMessageAssistant(
                content, calls or None, model=plain.get("model"), reasoning=plain.get("reasoning")
            )
        case "tool":
            error = plain.get("error")
            return ChatMessageTool(
                content,
                plain.get("tool_call_id"),
                plain.get("function"),
                ToolCallError(error["type"], error["message"]) if error else None,
            )
        case role:
            raise ValueError(f"a message's role must be system, user, assistant or tool, found {role!r}")


def fingerprint(message: ChatMessage) -> tuple[object, ...]:
    """What makes two messages the same, cheap to compare: texts keep their hash."""
    match message:
        case ChatMessageAssistant(content=content, tool_calls=calls):
            asked = tuple((call.id, call.function, json.dumps(call.arguments)) for call in calls or ())
            return ("assistant", content, asked)
        case ChatMessageTool(content=content, tool_call_id=call_id):
            return ("tool", content, call_id)
        case _:
            return (message.role, message.content)


def as_messages(given: str | ChatMessage | Sequence[ChatMessage]) -> list[ChatMessage]:
    """What a model is asked, however it was written."""
    if isinstance(given, str):
        return [ChatMessageUser(given)]
    if isinstance(given, ChatMessageSystem | ChatMessageUser | ChatMessageAssistant | ChatMessageTool):
        return [given]
    return list(given)


def _assistant_to_plain(message: ChatMessageAssistant) -> dict[str, Any]:
    plain: dict[str, Any] = {"role": "assistant", "content": message.content}
    plain |= _given(model=message.model, reasoning=message.reasoning)
    if message.tool_calls:
        plain["tool_calls"] = [
            {"id": call.id, "function": call.function, "arguments": call.arguments}
            | _given(parse_error=call.parse_error)
            for call in message.tool_calls
        ]
    return plain


def _call_from_plain(plain: Mapping[str, Any]) -> ToolCall:
    return ToolCall(
        id=str(plain.get("id", "")),
        function=str(plain["function"]),
        arguments=dict(plain.get("arguments") or {}),
        parse_error=plain.get("parse_error"),
    )


def _given(**values: object) -> dict[str, object]:
    return {name: value for name, value in values.items() if value is not None}
