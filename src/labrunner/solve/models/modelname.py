"""Names of models: `openai/gpt-5-mini` and `openai:gpt-5-mini` are one."""

from dataclasses import dataclass
from typing import Final

from labrunner.errors import InputError

MOCK: Final = "mock"


@dataclass(frozen=True, slots=True)
class ModelName:
    """A provider and one of its models."""

    provider: str
    model: str

    def __str__(self) -> str:
        """The one way of writing it in records."""
        return f"{self.provider}/{self.model}"

    @property
    def is_mock(self) -> bool:
        """Whether no provider is asked at all."""
        return self.provider == MOCK


def parse_model_name(text: str) -> ModelName:
    """Take a name apart at its first `/` or `:`."""
    at = min((place for place in (text.find("/"), text.find(":")) if place >= 0), default=-1)
    if at <= 0 or at == len(text) - 1:
        raise InputError("model", f"{text!r} names no model; write provider/name, such as openai/gpt-5-mini")
    return ModelName(text[:at], text[at + 1 :])
