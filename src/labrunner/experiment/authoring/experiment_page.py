"""Writes the reference page of experiment files from the models.

`python -m labrunner.experiment.authoring.experiment_page`.

Rule: every field's meaning is the text that stands under it in the source, so page and program can't drift.
"""

import ast
import inspect
import itertools
import sys
import types
from collections.abc import Iterator, Mapping
from typing import Any, Final, Literal, Union, get_args, get_origin

from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from labrunner.experiment.authoring import authored, model_part, task_row
from labrunner.experiment.authoring.page_text import AFTER, BEFORE
from labrunner.experiment.authoring.part import Part
from labrunner.experiment.authoring.values import Shown
from labrunner.experiment.resolved import Network

SECTIONS: Final[Mapping[type[Part], str]] = {
    authored.ExperimentFile: "The file",
    authored.TaskSource: "tasks",
    task_row.TaskRow: "A task",
    authored.ResourcesPart: "resources of a task",
    task_row.SolutionPart: "solution of a task",
    task_row.TaskAgentPart: "agent of a task",
    authored.VariantPart: "A variant",
    authored.SetupPart: "setup",
    authored.AgentPart: "agent",
    model_part.ModelPart: "models",
    model_part.PricePart: "prices of a model",
    authored.GraderPart: "grader",
    authored.MetricPart: "metric of a grader",
    authored.SandboxPart: "sandbox",
    authored.KeepPart: "keep",
    authored.BreakerPart: "breaker",
    authored.BudgetPart: "budget",
    authored.ExecutorPart: "executor",
}
_WORDS: Final = {str: "text", int: "whole number", float: "number", bool: "true or false", type(None): "null"}


def render() -> str:
    """Give the whole page as Markdown."""
    parts = [BEFORE, *(write_section(model, title) for model, title in SECTIONS.items()), AFTER]
    return "\n\n".join(part.strip() for part in parts) + "\n"


def field_texts(model: type[Part]) -> dict[str, str]:
    """Read the text that stands under each field of a model."""
    (definition,) = ast.parse(inspect.getsource(model)).body
    body = definition.body if isinstance(definition, ast.ClassDef) else []
    texts = {}
    for statement, following in itertools.pairwise(body):
        match (statement, following):
            case (
                ast.AnnAssign(target=ast.Name(id=name)),
                ast.Expr(value=ast.Constant(value=str(text))),
            ):
                texts[name] = " ".join(text.split())
            case _:
                pass
    return texts


def write_section(model: type[Part], title: str) -> str:
    """Give the table of a model's own fields."""
    texts = field_texts(model)
    lines = [f"## {title}", "", inspect.cleandoc(model.__doc__ or ""), ""]
    lines += ["| field | value | default | meaning |", "|---|---|---|---|"]
    for name, field in model.model_fields.items():
        if name in model.__annotations__:
            cells = (f"`{field.alias or name}`", _type(field), _default(field), texts[name])
            lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines)


def _type(field: FieldInfo) -> str:
    shown = next((each.text for each in field.metadata if isinstance(each, Shown)), None)
    return shown or _written(field.annotation)


def _written(annotation: Any) -> str:  # noqa: ANN401 - annotations have no common type
    if annotation in _WORDS:
        return _WORDS[annotation]
    if isinstance(annotation, type) and annotation in SECTIONS:
        title = SECTIONS[annotation]
        return f"[{title}](#{title.lower().replace(' ', '-')})"
    if isinstance(annotation, type) and issubclass(annotation, Part):  # of another page
        return "`{" + ", ".join(annotation.model_fields) + "}`"
    arguments = get_args(annotation)
    origin = get_origin(annotation)
    if origin is Literal:
        return ", ".join(f"`{each}`" for each in arguments)
    if origin in (Union, types.UnionType):
        return " or ".join(_union_words(arguments))
    if origin is list:
        return f"list of {_plural(_written(arguments[0]))}"
    if origin is dict:
        return f"map of name to {_written(arguments[1])}"
    return "any JSON" if annotation is Any else _written(arguments[0])


def _union_words(arguments: tuple[Any, ...]) -> Iterator[str]:
    for each in arguments:
        shown = next(
            (word.text for word in getattr(each, "__metadata__", ()) if isinstance(word, Shown)), None
        )
        yield shown or _written(each)


def _plural(word: str) -> str:
    return {"text": "texts", "any JSON": "values"}.get(word, word)


def _default(field: FieldInfo) -> str:
    match field.default:
        case value if value is PydanticUndefined:
            return "**required**"
        case Network(mode=mode):
            return f"`{mode}`"
        case Part():
            return ""
        case None:
            return "null"
        case bool() as value:
            return "true" if value else "false"
        case dict() as value if value:  # before the next one: the pattern {} takes full ones, too
            return "`{" + ", ".join(f"{key}: {each}" for key, each in value.items()) + "}`"
        case "" | () | [] | {}:
            return "empty"
        case float() as value:
            return f"{value:g}"
        case value:
            return f"`{value}`" if isinstance(value, str) else str(value)


if __name__ == "__main__":
    sys.stdout.write(render())
