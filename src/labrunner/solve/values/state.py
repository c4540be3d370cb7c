"""The state that solvers hand on: the conversation so far, and everything about the sample."""

from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from labrunner.solve.values.messages import ChatMessage, ChatMessageUser, ModelOutput
from labrunner.solve.values.sample import Choices, Target, input_text

if TYPE_CHECKING:
    from labrunner.solve.values.score import Score
    from labrunner.solve.values.tool import Tool


class Store(MutableMapping[str, Any]):
    """Values that solvers and tools of one attempt share. Any Python value: nothing of it is recorded."""

    def __init__(self) -> None:
        """Start empty."""
        self._values: dict[str, Any] = {}

    def __getitem__(self, key: str) -> Any:  # noqa: ANN401 - the author's own
        """Look a value up."""
        return self._values[key]

    def __setitem__(self, key: str, value: Any) -> None:  # noqa: ANN401 - the author's own
        """Keep a value."""
        self._values[key] = value

    def __delitem__(self, key: str) -> None:
        """Drop a value."""
        del self._values[key]

    def __iter__(self) -> Iterator[str]:
        """Names of the values."""
        return iter(self._values)

    def __len__(self) -> int:
        """How many there are."""
        return len(self._values)

    def set(self, key: str, value: Any) -> None:  # noqa: ANN401 - the author's own
        """Keep a value."""
        self._values[key] = value


@dataclass(slots=True, kw_only=True)
class TaskState:
    """Where an attempt stands. Solvers change it, or return another one."""

    model: str
    sample_id: str
    epoch: int
    """Counted from 1."""
    input: str | Sequence[ChatMessage]
    messages: list[ChatMessage]
    target: Target = field(default_factory=lambda: Target(""))
    choices: Choices = field(default_factory=Choices)
    output: ModelOutput = field(default_factory=ModelOutput)
    metadata: dict[str, Any] = field(default_factory=dict)  # any JSON: the author's own
    tools: "list[Tool]" = field(default_factory=list)
    tool_choice: str | None = None
    completed: bool = False
    """Set by a solver that wants no other one after it."""
    store: Store = field(default_factory=Store)
    scores: "dict[str, Score] | None" = None

    @property
    def input_text(self) -> str:
        """The input's text."""
        return input_text(self.input)

    @property
    def user_prompt(self) -> ChatMessageUser:
        """The last message of the user. It can be edited in place."""
        for message in reversed(self.messages):
            if isinstance(message, ChatMessageUser):
                return message
        raise ValueError(f"sample {self.sample_id}: the conversation holds no user message")

    @property
    def values(self) -> Mapping[str, Any]:
        """What templates may name: the sample's metadata and the store."""
        return {**self.metadata, **dict(self.store.items())}
