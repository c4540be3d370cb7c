"""What a request asks of a provider, and what an answer says: the same words for every dialect.

Rules: token counts are as the provider bills them: `input` holds what was read from and written to its cache,
`output` holds reasoning. What an answer does not say is None, never 0.
"""

from dataclasses import dataclass
from typing import Literal, Protocol

Dialect = Literal["openai", "anthropic", "gemini"]
"""What `models:` names: one provider's family of protocols."""
Protocols = Literal["openai_chat", "openai_responses", "openai", "anthropic", "gemini"]
"""The protocol of one call. `openai` is what its chat and responses share: model lists and embeddings."""
Purpose = Literal["generate", "count_tokens", "models", "embeddings"]
TakenOut = Literal["web_search", "web_fetch", "code", "mcp", "file_search", "image_generation", "url", "file"]
"""What a provider would carry out itself: the word that `server_tools` grants it by."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """A request that may be passed on: what it asks, and the bytes that are sent for it."""

    protocol: Protocols
    purpose: Purpose
    path: str
    """Below the provider's base address; made anew from what was understood."""
    query: tuple[tuple[str, str], ...] = ()
    model: str | None = None
    is_streaming: bool = False
    max_output: int | None = None
    """Tokens that may be generated at most, over all choices; None where the model's own limit counts."""
    max_input: int = 0
    """Tokens that the request can have at most."""
    leans_on_past: bool = False
    """Whether earlier answers, kept at the provider, are billed as input again."""
    tier: str | None = None
    body: bytes = b""
    """What was judged is what is sent: written anew from the values that were read."""
    taken_out: tuple[str, ...] = ()
    hides_usage: bool = False
    """Whether the client did not ask for the chunk with usage that we ask for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Declined:
    """A request that is not passed on, with the answer for the client."""

    status: int
    kind: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Tokens:
    """What one call used, as it is billed."""

    input: int = 0
    output: int = 0
    cache_read: int = 0
    """Part of `input`."""
    cache_write: int = 0
    """Part of `input`."""
    cache_write_1h: int = 0
    """Part of `cache_write`: kept for an hour, at another price."""
    reasoning: int = 0
    """Part of `output`."""

    @property
    def total(self) -> int:
        """All of them."""
        return self.input + self.output


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedCall:
    """A call of one of the agent's own tools that the model asked for."""

    id: str
    name: str
    arguments: str
    """JSON, as it came."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Complaint:
    """An error as the provider told it."""

    kind: str | None
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Heard:
    """What an answer said."""

    response_id: str | None = None
    model: str | None = None
    tokens: Tokens | None = None
    stop_reason: str | None = None
    text: str = ""
    reasoning: str = ""
    wanted: tuple[WantedCall, ...] = ()
    refusal: str | None = None
    complaint: Complaint | None = None
    tier: str | None = None
    is_over: bool = False
    """Whether the answer came to its end, by its own words."""
    size: int = 0
    """Bytes of what was generated, as far as they were seen."""


class Listener(Protocol):
    """Takes the JSON values of one answer, as they come: a whole body is one value."""

    def ends(self, value: object) -> bool:
        """Whether nothing is to come after a value. Asked before it is heard; changes nothing."""
        ...

    def hear(self, value: object) -> None:
        """Take in one value."""
        ...

    def tell(self) -> Heard:
        """What was said so far."""
        ...
