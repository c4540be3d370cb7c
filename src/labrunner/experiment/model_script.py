"""A model's script: canned answers that stand for a provider, as their author writes them.

Rules: strict, like every authored file. Which answer a request gets follows from the request alone: the first
conversation that fits it, and of its answers the one with the number of turns that the model has had already.
Nothing is counted anywhere, so it does not matter who asks when, or whether somebody was started again.
"""

# ruff: noqa: RUF012 - pydantic copies defaults

from pathlib import Path
from typing import Annotated, TypeAlias

from pydantic import Field, model_validator

from labrunner.errors import InputError
from labrunner.experiment.authoring.document import read_document
from labrunner.experiment.authoring.part import Part, Text
from labrunner.experiment.authoring.problems import Problems, validate
from labrunner.experiment.authoring.values import JsonMap

Tokens: TypeAlias = Annotated[int, Field(ge=0)]


class ScriptedCall(Part):
    """A call of one of the agent's tools."""

    name: Text
    """The tool."""
    arguments: JsonMap = {}
    """What it is called with."""


class ScriptedUsage(Part):
    """Tokens that an answer says it used."""

    input: Tokens
    """All that was read, cached or not."""
    output: Tokens
    """All that was generated, reasoning too."""
    cache_read: Tokens = 0
    """Part of `input`."""
    reasoning: Tokens = 0
    """Part of `output`."""

    @model_validator(mode="after")
    def _hold_their_parts(self) -> "ScriptedUsage":
        if self.cache_read > self.input:
            raise ValueError(f"cache_read ({self.cache_read}) is part of input ({self.input}), and larger")
        if self.reasoning > self.output:
            raise ValueError(f"reasoning ({self.reasoning}) is part of output ({self.output}), and larger")
        return self


class ScriptedError(Part):
    """An error instead of an answer."""

    status: Annotated[int, Field(ge=400, le=599)]
    """HTTP status."""
    kind: Text = "api_error"
    """The provider's word for it."""
    message: Text = "as the script says"
    """Its sentence."""


class ScriptedAnswer(Part):
    """One turn of the model: a text, calls of tools, or both; or an error."""

    text: str = ""
    """What it says."""
    tool_calls: list[ScriptedCall] = []
    """Tools that it wants to be called."""
    usage: ScriptedUsage | None = None
    """Tokens; null: about one for four characters."""
    delay_s: Annotated[float, Field(ge=0, le=3600)] = 0.0
    """Before the answer begins."""
    error: ScriptedError | None = None
    """Instead of text and calls."""

    @model_validator(mode="after")
    def _say_one_thing(self) -> "ScriptedAnswer":
        says = bool(self.text or self.tool_calls)
        if says and self.error is not None:
            raise ValueError("has an error beside text or tool_calls; keep one of them")
        if not says and self.error is None:
            raise ValueError("says nothing; write text, tool_calls or error")
        return self


class ScriptedConversation(Part):
    """Answers to a conversation, in their order."""

    match: Text | None = None
    """Text that must stand in the first message of the user; null: any."""
    model: Text | None = None
    """The model that must be asked for; null: any."""
    answers: Annotated[list[ScriptedAnswer], Field(min_length=1)]
    """The first one for a request without any turn of the model in it, the second for one with one, …"""


class ModelScript(Part):
    """A file of canned answers."""

    conversations: Annotated[list[ScriptedConversation], Field(min_length=1)]
    """The first one that fits a request answers it."""


def read_script(path: Path) -> ModelScript:
    """Read a file, JSON or YAML. Raises InputError, InputErrors."""
    document = read_document(path, "a model's script is a map with a list of conversations")
    problems = Problems()
    script = validate(ModelScript, document.data, document.where, problems)
    problems.stop_if_any()
    if script is None:
        raise InputError(str(path), "can't be read")
    return script
