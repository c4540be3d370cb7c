"""Variables by which clients find their models and the proxy. Pure.

Rule: what an agent's own `env` says wins: these are what it finds where nothing else was written.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from labrunner.experiment.resolved import ModelEntry

_URLS: Final[Mapping[str, tuple[str, ...]]] = {
    "openai": ("OPENAI_BASE_URL", "OPENAI_API_BASE"),
    "anthropic": ("ANTHROPIC_BASE_URL",),
    "gemini": ("GOOGLE_GEMINI_BASE_URL", "GEMINI_BASE_URL"),
}
_KEYS: Final[Mapping[str, tuple[str, ...]]] = {
    "openai": ("OPENAI_API_KEY",),
    "anthropic": ("ANTHROPIC_API_KEY",),
    "gemini": ("GEMINI_API_KEY", "GOOGLE_API_KEY"),
}
"""What clients of a dialect read, for the first model of it."""
_NEAR: Final = ("127.0.0.1", "localhost", "::1")
"""What is reached without the proxy: the sandbox itself, and models."""
_USER: Final = "lab"
_OPENAI_VERSION: Final = "/v1"
"""Its clients have this in their base address, those of the others add it."""


def name_models(models: Sequence[ModelEntry], base: str, token: str) -> dict[str, str]:
    """Where each model is, and the attempt's token as its key."""
    env: dict[str, str] = {}
    for entry in models:
        env |= dict(_name_model(entry, base, token))
    for entry in reversed(models):  # of each dialect the first one wins
        url = _find_url(entry, base)
        env |= dict.fromkeys(_URLS[entry.dialect], url) | dict.fromkeys(_KEYS[entry.dialect], token)
    return env


def _name_model(entry: ModelEntry, base: str, token: str) -> Iterator[tuple[str, str]]:
    yield f"{entry.variable}_URL", _find_url(entry, base)
    yield f"{entry.variable}_KEY", token


def _find_url(entry: ModelEntry, base: str) -> str:
    return f"{base}/{entry.name}" + (_OPENAI_VERSION if entry.dialect == "openai" else "")


def name_proxy(host: str, port: int, token: str | None) -> dict[str, str]:
    """Where the door to hosts is; a token where it has to be shown."""
    who = "" if token is None else f"{_USER}:{token}@"
    url, near = f"http://{who}{host}:{port}", ",".join(dict.fromkeys((host, *_NEAR)))
    upper = {"HTTP_PROXY": url, "HTTPS_PROXY": url, "NO_PROXY": near}
    return {**upper, **{name.lower(): value for name, value in upper.items()}, "NODE_USE_ENV_PROXY": "1"}
