"""Tools: functions that a model may call. Types and docstring of a function say what the model is told."""

import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, wraps
from typing import Any, Final, ParamSpec, overload

from labrunner.solve.values.description import bind_arguments, describe

P = ParamSpec("P")
MAX_OUTPUT: Final = 16 * 1024
"""Bytes of a tool's result that a model gets to see."""
_ARGUMENT: Final = re.compile(r"^(\*{0,2}\w+)\s*(?:\([^)]*\))?\s*:\s*(.*)$")
_SECTION: Final = re.compile(r"^(Args|Arguments|Parameters|Returns|Raises|Yields|Examples?|Notes?):\s*$")


class ToolError(Exception):
    """A tool could not do what it was asked; the model is told, and the trial goes on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolInfo:
    """What a model is told about a tool."""

    name: str
    description: str
    parameters: Mapping[str, Any]  # a JSON Schema


@dataclass(frozen=True)
class Tool:
    """A function that a model may call."""

    name: str
    call: Callable[..., Any]  # the author's own
    arguments: Mapping[str, Any] = field(default_factory=dict)  # what it was made with, plain JSON
    description: str | None = None

    @cached_property
    def info(self) -> ToolInfo:
        """What the model is told."""
        summary, described = read_docstring(self.call)
        text = self.description or summary
        if not text:
            raise TypeError(f"tool {self.name} has no docstring: it is what a model is told about the tool")
        return ToolInfo(name=self.name, description=text, parameters=_schema(self.call, described))

    @cached_property
    def _adapter(self) -> Any:  # noqa: ANN401 - pydantic's own, loaded when first needed
        return _adapt(self.call)

    def invoke(self, arguments: Mapping[str, Any]) -> Any:  # noqa: ANN401 - the author's own
        """Call the function with a model's arguments, checked and converted. Raises ValueError."""
        from pydantic_core import ArgsKwargs

        return self._adapter.validate_python(ArgsKwargs((), dict(arguments)))

    async def __call__(self, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - the author's own
        """Call it as the function that it is."""
        result = self.call(*args, **kwargs)
        return await result if inspect.isawaitable(result) else result

    def describe(self) -> object:
        """Name and arguments."""
        return {"name": self.name, "arguments": dict(self.arguments)}


@overload
def tool(name: Callable[P, Any]) -> Callable[P, Tool]: ...
@overload
def tool(name: str | None = None) -> Callable[[Callable[P, Any]], Callable[P, Tool]]: ...
def tool(name: Any = None) -> Any:
    """Make a function that returns a tool's function into one that makes tools."""

    def decorate(make: Callable[P, Any]) -> Callable[P, Tool]:
        called = name if isinstance(name, str) else make.__name__

        @wraps(make)
        def made(*args: P.args, **kwargs: P.kwargs) -> Tool:
            arguments = describe(bind_arguments(make, args, kwargs))
            inner = make(*args, **kwargs)
            if isinstance(inner, Tool):
                return replace(inner, name=called, arguments=arguments)
            if not callable(inner):
                raise TypeError(
                    f"@tool {called} must return the tool's function, found {type(inner).__name__}"
                )
            return Tool(called, inner, arguments)

        return made

    return decorate(name) if callable(name) else decorate


def as_tool(given: Callable[..., Any]) -> Tool:
    """Any typed function with a docstring as a tool."""
    if isinstance(given, Tool):
        return given
    if not callable(given):
        raise TypeError(f"a tool is a function with types and a docstring, found {type(given).__name__}")
    return Tool(getattr(given, "__name__", type(given).__name__), given)


def read_docstring(function: Callable[..., Any]) -> tuple[str, dict[str, str]]:
    """A docstring's text before its sections, and what it says about each argument."""
    lines = (inspect.getdoc(function) or "").splitlines()
    first = next((at for at, line in enumerate(lines) if _SECTION.match(line)), len(lines))
    described: dict[str, str] = {}
    for block in _argument_lines(lines[first:]):
        if found := _ARGUMENT.match(block):
            described[found[1].lstrip("*")] = found[2]
    return "\n".join(lines[:first]).strip(), described


def _argument_lines(lines: list[str]) -> list[str]:
    """The entries of the section about arguments, each on one line."""
    entries: list[str] = []
    inside, indent = False, 0
    for line in lines:
        if section := _SECTION.match(line):
            inside = section[1] in {"Args", "Arguments", "Parameters"}
        elif inside and line.strip():
            depth = len(line) - len(line.lstrip())
            if not entries or depth <= indent:
                entries.append(line.strip())
                indent = depth
            else:
                entries[-1] += f" {line.strip()}"
    return entries


def _schema(function: Callable[..., Any], described: Mapping[str, str]) -> Mapping[str, Any]:
    schema: dict[str, Any] = _adapt(function).json_schema()
    for name, field_schema in schema.get("properties", {}).items():
        field_schema.pop("title", None)
        if name in described:
            field_schema["description"] = described[name]
    return {"type": "object", "properties": {}, **schema}


def _adapt(function: Any) -> Any:  # noqa: ANN401 - pydantic's own, loaded when first needed
    from pydantic import TypeAdapter

    return TypeAdapter(function)
