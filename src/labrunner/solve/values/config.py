"""How answers are asked for: settings that shape them, and how patiently they are asked for.

What shapes an answer is measured and stands in the experiment's digest; patience (connections, retries,
time-outs) is policy.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Final

from labrunner.errors import InputError
from labrunner.experiment.options import kinds

PATIENCE: Final = frozenset({"max_connections", "max_retries", "timeout"})


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerateConfig:
    """Settings of a request; None leaves the provider's."""

    temperature: float | None = None
    max_tokens: int | None = None
    top_p: float | None = None
    top_k: int | None = None
    seed: int | None = None
    stop_seqs: tuple[str, ...] | list[str] | None = None
    frequency_penalty: float | None = None
    presence_penalty: float | None = None
    parallel_tool_calls: bool | None = None
    system_message: str | None = None
    """Put before the conversation where it has no system message."""
    extra: Mapping[str, Any] | None = None  # any JSON: a provider's own settings, handed on as they are
    max_connections: int | None = None
    """How many requests a provider gets at once, over all trials of a run."""
    max_retries: int | None = None
    """How often a request is made again after trouble of the provider's."""
    timeout: float | None = None
    """Seconds after which a request counts as failed."""

    def __post_init__(self) -> None:
        """Refuse what is no such setting, where it is written."""
        for name, kind in _KINDS:
            kind.check(f"setting {name}", getattr(self, name))

    def merge(self, other: "GenerateConfig | None") -> "GenerateConfig":
        """Lay the settings of another one over these."""
        changes = {} if other is None else given(other)
        return replace(self, **changes) if changes else self

    def measured(self) -> dict[str, Any]:
        """What shapes answers, as plain JSON."""
        return {name: _plain(value) for name, value in given(self).items() if name not in PATIENCE}


_KINDS: Final = (
    ("temperature", kinds.NOT_NEGATIVE),
    ("max_tokens", kinds.COUNT),
    ("top_p", kinds.SHARE),
    ("top_k", kinds.COUNT),
    ("seed", kinds.WHOLE),
    ("stop_seqs", kinds.TEXTS),
    ("frequency_penalty", kinds.NUMBER),
    ("presence_penalty", kinds.NUMBER),
    ("parallel_tool_calls", kinds.TRUTH),
    ("system_message", kinds.TEXT),
    ("extra", kinds.MAP),
    ("max_connections", kinds.COUNT),
    ("max_retries", kinds.COUNT_OR_NONE),
    ("timeout", kinds.POSITIVE),
)
_NAMES: Final = tuple(each.name for each in fields(GenerateConfig))
SETTINGS: Final = {name: kind for name, kind in _KINDS if name not in PATIENCE}
"""What shapes answers, by name: each is also a keyword of `eval()`."""
NO_SETTINGS: Final = GenerateConfig()


def given(config: GenerateConfig) -> dict[str, Any]:
    """The settings that were made."""
    return {name: value for name in _NAMES if (value := getattr(config, name)) is not None}


def make_config(settings: Mapping[str, Any], where: str) -> GenerateConfig:
    """Make a configuration of names and values; an unknown name is refused with those that exist."""
    for name in settings:
        if name not in _NAMES:
            raise InputError(where, f"there is no setting {name!r}; there are: {', '.join(_NAMES)}")
    return GenerateConfig(**settings) if settings else NO_SETTINGS


def _plain(value: object) -> object:
    return list(value) if isinstance(value, tuple) else value
