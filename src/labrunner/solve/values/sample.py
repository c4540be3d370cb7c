"""A sample: one problem as a Python author writes it, and what its scorers compare with."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, overload

from labrunner.solve.values.messages import ChatMessage, ChatMessageUser


@dataclass(slots=True)
class Sample:
    """One problem."""

    input: str | list[ChatMessage]
    choices: list[str] | None = None
    target: str | list[str] = ""
    id: int | str | None = None
    """Given, or made from the position in the dataset, counted from 1."""
    metadata: dict[str, Any] | None = None  # any JSON: the author's own
    sandbox: str | tuple[str, str] | Mapping[str, Any] | None = None  # fields of an experiment file's sandbox
    files: dict[str, str] | None = None
    """Files of the workspace: path to content, or to the file that it is copied from."""
    setup: str | None = None
    """A shell script, or the file that holds one, run in the sandbox before the first step."""
    group: str | None = None
    """Samples of one group are not independent of each other: intervals are clustered by it."""


class Target(Sequence[str]):
    """What is right: one text, or several that are as good."""

    def __init__(self, target: str | Sequence[str]) -> None:
        """Take one text or several."""
        self.target = [target] if isinstance(target, str) else list(target)

    @property
    def text(self) -> str:
        """All of it as one text."""
        return "".join(self.target)

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[str]: ...
    def __getitem__(self, index: int | slice) -> str | Sequence[str]:
        """One of the texts."""
        return self.target[index]

    def __len__(self) -> int:
        """How many texts there are."""
        return len(self.target)

    def __repr__(self) -> str:
        """The texts."""
        return f"Target({self.target!r})"


@dataclass(slots=True)
class Choice:
    """One answer of a multiple-choice question."""

    value: str
    correct: bool | None = None
    """Whether the model chose it; None before it was asked."""
    original_position: int = 0


@dataclass(slots=True)
class Choices(Sequence[Choice]):
    """The answers of a multiple-choice question, in the order in which the model sees them."""

    choices: list[Choice] = field(default_factory=list)

    @classmethod
    def of(cls, values: Sequence[str] | None) -> "Choices":
        """Make choices of texts."""
        return cls([Choice(value, None, position) for position, value in enumerate(values or ())])

    def mark_choice(self, index: int, correct: bool) -> None:
        """Note whether the model chose an answer."""
        self.choices[index].correct = correct

    @overload
    def __getitem__(self, index: int) -> Choice: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Choice]: ...
    def __getitem__(self, index: int | slice) -> Choice | Sequence[Choice]:
        """One of the choices."""
        return self.choices[index]

    def __len__(self) -> int:
        """How many there are."""
        return len(self.choices)


def input_text(given: str | Sequence[ChatMessage]) -> str:
    """The text of an input: of a conversation, what its last user says."""
    if isinstance(given, str):
        return given
    return next((message.content for message in reversed(given) if isinstance(message, ChatMessageUser)), "")
