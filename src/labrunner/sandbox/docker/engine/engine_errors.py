"""Whose fault it is when a call to the engine fails.

`EngineGone` means that nothing is known about what happened; `EngineRefused` is the engine's own answer.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import aiohttp

from labrunner.errors import SandboxFailed


class CallRefused(Exception):
    """The engine's own answer that a call can't be carried out, before it is known what was being done."""

    def __init__(self, status: int, told: str) -> None:
        """Take the status of its answer; 0 where it was told on the way."""
        super().__init__(told)
        self.status = status


class ForeignAnswer(ConnectionError):
    """What answered does not speak as a Docker engine does, or was cut off."""


class EngineGone(SandboxFailed):
    """The engine does not answer."""


class StreamsEnded(EngineGone):
    """Nobody hears what is written to a container: it has ended, or the engine is away."""


class EngineRefused(SandboxFailed):
    """The engine answered, and said no."""

    def __init__(self, status: int, doing: str, told: str) -> None:
        """Keep the status: what follows is decided by it, never by the text."""
        self.status = status
        super().__init__(f"engine_{status}" if status else "engine_error", f"{doing}: {told}")

    @property
    def is_not_found(self) -> bool:
        """Whether the thing that was spoken of is not there."""
        return self.status == 404


@contextmanager
def blamed(doing: str) -> Iterator[None]:
    """Turn whatever a call to the engine can raise into one of the two."""
    try:
        yield
    except CallRefused as error:
        raise EngineRefused(error.status, doing, str(error)) from error
    except TimeoutError as error:
        raise EngineGone("engine_silent", f"{doing}: the engine did not answer in time") from error
    except (aiohttp.ClientError, OSError) as error:
        raise EngineGone("engine_gone", f"{doing}: {str(error) or repr(error)}") from error
