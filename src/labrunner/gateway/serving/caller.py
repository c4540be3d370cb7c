"""Whose calls they are, and who answers them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from labrunner.gateway.dialects.bounds import UNKNOWN_OUTPUT
from labrunner.gateway.dialects.speech import Dialect
from labrunner.gateway.metering.pricelist import PriceList
from labrunner.gateway.metering.purse import CapReached, Purse
from labrunner.gateway.recording.calljournal import CallJournal
from labrunner.gateway.replaying.tape import Tape
from labrunner.gateway.serving.allowance import Allowance
from labrunner.policy.capacity import CONNECTIONS, RETRIES
from labrunner.records.encoding.ids import Ids

HOMES: Final[Mapping[Dialect, str]] = {
    "openai": "https://api.openai.com/v1",
    "anthropic": "https://api.anthropic.com",
    "gemini": "https://generativelanguage.googleapis.com",
}
"""Where providers are, unless an entry says otherwise."""
SCRIPT_URL: Final = "http://script.invalid"
"""An address that is never asked: a script stands for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderEntry:
    """One entry of `models:`, with its key. The key is in no text that this is shown as."""

    name: str
    dialect: Dialect
    base_url: str
    key: str | None = field(repr=False)
    prices: PriceList
    max_connections: int = CONNECTIONS
    max_retries: int = RETRIES
    server_tools: frozenset[str] = frozenset()
    """What the provider may carry out itself."""
    max_output: int = UNKNOWN_OUTPUT
    """Tokens of an answer for which a request sets no limit."""
    connect_s: float = 10.0
    silence_s: float = 600.0
    """How long a provider may send nothing."""
    longest_wait_s: float = 60.0
    """Before another try; who asks for a longer wait is not tried again."""
    first_wait_s: float = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """One attempt, as the gateway knows it. Its token is in no text that this is shown as."""

    ids: Ids
    attempt: int
    token: str = field(repr=False)
    providers: frozenset[str]
    """Entries of `models:` that it may use."""
    purses: tuple[Purse, ...]
    """The attempt's own first, then the run's."""
    journal: CallJournal
    allowance: Allowance = field(default_factory=Allowance, repr=False, compare=False)
    on_capped: Callable[[CapReached], None] | None = None
    """Told when a cap has refused a request, once that is on disk."""
    tape: Tape | None = None
    """Recorded calls that answer in a provider's place."""
    on_missed: Callable[[], None] | None = None
    """Told when they had no answer and nobody else may give one, once that is on disk."""
