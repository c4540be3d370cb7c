"""What a run's owner and its gateway say to each other.

Rules: keys of providers are told here and nowhere else: neither in arguments, nor in the environment, nor on
disk. Everything can be said again: who has heard it does nothing.
"""

from collections.abc import Mapping

import msgspec

from labrunner.experiment.run_policy import ReplayMode
from labrunner.gateway.dialects.speech import Dialect
from labrunner.gateway.metering.fund import Amounts, Statement, Terms
from labrunner.gateway.metering.purse import Limit
from labrunner.policy.capacity import CONNECTIONS, RETRIES
from labrunner.records.encoding.ids import Ids

VERSION = 3


class ToldPrice(msgspec.Struct, frozen=True, kw_only=True):
    """USD for a million tokens, as an experiment says it."""

    input: float
    output: float
    cache_read: float | None = None
    cache_write: float | None = None


class ToldModel(msgspec.Struct, frozen=True, kw_only=True):
    """An entry of `models:`, with its key."""

    name: str
    dialect: Dialect
    base_url: str | None
    key: str | None
    prices: Mapping[str, ToldPrice] = {}
    max_connections: int = CONNECTIONS
    max_retries: int = RETRIES
    server_tools: tuple[str, ...] = ()
    script: str | None = None
    """A file of canned answers, which stand for the provider."""

    def __repr__(self) -> str:
        """Without the key."""
        return f"ToldModel({self.name!r})"


class ToldCaps(msgspec.Struct, frozen=True, kw_only=True):
    """What may be used at most; None for no cap."""

    cost_usd: float | None = None
    tokens: int | None = None
    requests: int | None = None


class Hello(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """A run's owner introduces itself."""

    models: tuple[ToldModel, ...]
    budget: ToldCaps = ToldCaps()
    trials: str
    """The folder of all trials' folders: what they spent is written there."""
    version: int = VERSION
    is_lent: bool = False
    """Whether money and connections are lent by whoever owns the run, for it has other gateways, too."""


class Listen(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Listen on an address that several attempts share."""

    host: str
    ports: tuple[int, int] = (0, 0)
    """For models and for hosts; 0 for any."""


class Admit(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Serve a phase of an attempt."""

    visit: str
    """What it is called here: the token of a dispatch, and the phase."""
    ids: Ids
    attempt: int
    folder: str
    """Where its calls are written."""
    token: str
    phase: str = "agent"
    models: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    caps: ToldCaps = ToldCaps()
    pid: int | None = None
    """A process of its sandbox: when it is gone, so is the phase."""
    host: str | None = None
    """The shared address where it comes to; None: on the loopback of that process' network namespace."""
    replay: ReplayMode | None = None
    """How its calls are answered from recorded ones; None where a provider answers all."""
    tapes: tuple[str, ...] = ()
    """Folders of attempts whose calls answer, the preferred one first."""

    def __repr__(self) -> str:
        """Without the token."""
        return f"Admit({self.visit!r}, pid={self.pid}, host={self.host!r})"


class Dismiss(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Serve it no longer; answered when its calls are written and its files closed."""

    visit: str


class Lend(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """How the run's funds stand with a gateway."""

    instance: str
    """Which process it is for: another one, which took its place meanwhile, has nothing of this."""
    money: Terms | None = None
    places: Mapping[str, Terms] = {}
    """Connections, by provider."""


class Done(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """So it is."""


class Listening(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Where."""

    ports: tuple[int, int]


class Refused(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """It can't be done."""

    reason: str
    """One word, for records."""
    message: str


class Capped(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """A cap refused a request: the agent is to be ended."""

    visit: str
    whose: str
    """`attempt` or `run`."""
    limit: Limit


class Missed(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """A recording had no answer, and nobody else may give one: the agent is to be ended."""

    visit: str


class Broken(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Its calls can't be written any more."""

    visit: str
    message: str


class Stated(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """How a gateway stands with the run's funds: those of which there is something to say."""

    instance: str
    """Which process this is; empty where none is there."""
    money: Statement | None = None
    places: Mapping[str, Statement] = {}
    most: Mapping[str, int] = {}
    """How many connections each provider may have, over all gateways."""
    ended: Mapping[str, Amounts] = {}
    """What processes before this one spent, as far as that is known."""


Request = Hello | Listen | Admit | Dismiss | Lend
Reply = Done | Listening | Refused
Halting = Capped | Missed
"""What ends an agent."""
Event = Halting | Broken | Stated


class Inquiry(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """A request, with the number that its reply has."""

    number: int
    request: Request


class Answered(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """A reply."""

    number: int
    reply: Reply


class Told(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Something that nobody asked for."""

    event: Event


Message = Inquiry | Answered | Told
