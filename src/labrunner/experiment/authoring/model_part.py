"""An entry of `models:` as its author writes it.

Rules: as in `authored.py`, whose fields these are; the text under each field is the reference page's.
"""

# ruff: noqa: RUF012 - pydantic copies defaults

from typing import Annotated, Literal, TypeAlias

from pydantic import Field

from labrunner.experiment.authoring.part import Count, Part, Text
from labrunner.policy.capacity import CONNECTIONS, RETRIES

Usd: TypeAlias = Annotated[float, Field(ge=0)]
ServerTool: TypeAlias = Literal[
    "web_search", "web_fetch", "code", "mcp", "file_search", "image_generation", "url", "file"
]


class PricePart(Part):
    """What a model costs, in US dollars for a million tokens."""

    input: Usd
    """What the model reads."""
    output: Usd
    """What it generates, reasoning included."""
    cache_read: Usd | None = None
    """What it reads from the provider's cache; null: as `input`."""
    cache_write: Usd | None = None
    """What is written to the provider's cache; null: as `input`."""


class ModelPart(Part):
    """A provider of models that agents reach through the gateway, by the entry's name."""

    dialect: Literal["openai", "anthropic", "gemini"]
    """The protocol that it speaks: `openai` (chat and responses), `anthropic` (messages) or `gemini`."""
    base_url: Text | None = None
    """Its address, with `/v1` where its clients write that; null: that of the dialect's own provider."""
    key: Text | None = None
    """Name of the variable, of lab's own environment or `--env-file`, that holds the key; null: none is sent.
    The key stays outside of sandboxes."""
    prices: dict[Text, PricePart] = {}
    """Prices by the name of the model, before those of the table that comes with lab."""
    max_connections: Count = CONNECTIONS
    """How many requests it gets at once, over all trials."""
    max_retries: Annotated[int, Field(ge=0)] = RETRIES
    """How often a request that failed is made again, where the agent has seen nothing of an answer."""
    server_tools: list[ServerTool] = []
    """What it may carry out itself, at its own place and so outside of the sandbox. Anything else of that
    kind is taken out of requests."""
    script: Text | None = None
    """A file of canned answers: the gateway answers from it, and nobody is asked. Instead of `base_url` and
    `key`."""
