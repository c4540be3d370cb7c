"""The door to whoever answers: a provider behind pydantic-ai, or a mock.

Rules: a backend makes one request and decides nothing: no retry, no waiting for places. It lives in the home
loop. Trouble of the provider's is a `ProviderTrouble` that says whether another try may help.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final, Protocol

from labrunner.solve.values.config import NO_SETTINGS, GenerateConfig
from labrunner.solve.values.messages import ChatMessage, ModelOutput, to_plain
from labrunner.solve.values.tool import ToolInfo

QUOTA: Final = "quota"
"""The reason of trouble with a quota that is used up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRequest:
    """What a model is asked."""

    messages: Sequence[ChatMessage]
    tools: Sequence[ToolInfo] = ()
    tool_choice: str | None = None
    """`auto`, `any`, `none`, or the name of a tool; None leaves it to the model."""
    config: GenerateConfig = NO_SETTINGS

    def describe(self) -> dict[str, Any]:
        """All that shapes the answer, as plain JSON."""
        return {
            "messages": [to_plain(message) for message in self.messages],
            "tools": [
                {"name": each.name, "description": each.description, "parameters": each.parameters}
                for each in self.tools
            ],
            "tool_choice": self.tool_choice,
            "config": self.config.measured(),
        }


class ProviderTrouble(Exception):
    """A request failed, and the model is not to blame."""

    def __init__(
        self, reason: str, message: str, *, is_transient: bool, retry_after_s: float | None = None
    ) -> None:
        """Name the reason in one machine-readable word: `http_429`, `connection`, `timeout`, …."""
        self.reason = reason
        self.is_transient = is_transient
        self.retry_after_s = retry_after_s
        super().__init__(message)


class Backend(Protocol):
    """Answers requests for one model."""

    async def request(self, request: ModelRequest) -> ModelOutput:
        """Make one request. Raises ProviderTrouble."""
        ...

    def has_price(self) -> bool:
        """Whether it is known what answers cost, so that a limit of cost can be held."""
        ...

    def bound_cost(self, request: ModelRequest) -> Decimal | None:
        """What a request can cost at most, in USD; None where nobody knows.

        Of one that sets no limit to its answer, what it costs without an answer.
        """
        ...

    async def close(self) -> None:
        """Let go of connections."""
        ...


class Askable(Protocol):
    """A model, as far as requests are made for it."""

    @property
    def name(self) -> str:
        """`provider/model`."""
        ...

    @property
    def provider(self) -> str:
        """Whose connections are counted."""
        ...

    @property
    def key(self) -> object:
        """What tells models with a client of their own apart."""
        ...

    def make_backend(self) -> Backend:
        """Make whoever answers. Raises InputError where that can't be."""
        ...
