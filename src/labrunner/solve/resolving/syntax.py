"""What a Python file says, however it is laid out: a digest of its syntax tree, and what it imports.

Comments, blank lines, quotes and line breaks don't count. Docstrings do: those of tools are prompts.
Empty fields are left out, so that most versions of Python give one digest; it is not promised that all do.
"""

import ast
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from labrunner.experiment.folders import digest_file

_IMPORTERS: Final = frozenset({"import_module", "__import__"})
_ONLY_SPELLING: Final = frozenset({"kind", "type_comment", "type_ignores"})


@dataclass(frozen=True, slots=True)
class Import:
    """One name that a file imports: `module`, or what a package may hold as a module."""

    module: str
    level: int = 0
    """How many dots stood before it."""
    names: tuple[str, ...] = ()
    """What was taken from it, which may be modules too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Code:
    """A file of Python, read once."""

    digest: str
    imports: tuple[Import, ...]


def read_code(path: Path) -> Code:
    """Read a file; one that is no Python that can be parsed counts by its bytes, and imports nothing."""
    try:
        tree = ast.parse(path.read_bytes())
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return Code(digest=digest_file(path), imports=())
    return Code(digest=_digest(tree), imports=tuple(_imports(tree)))


def _digest(tree: ast.AST) -> str:
    state = hashlib.sha256(b"code_v1\0")
    for word in _words(tree):
        state.update(word.encode("utf-8", "surrogatepass") + b"\0")
    return f"sha256:{state.hexdigest()}"


def _words(tree: ast.AST) -> Iterator[str]:
    """A tree as words, without recursion: expressions may be deeper than Python's own stack."""
    owed: list[object] = [tree]
    while owed:
        item = owed.pop()
        match item:
            case ast.AST():
                yield f"<{type(item).__name__}"
                owed.append(_Word(">"))
                for name in reversed(item._fields):
                    value = getattr(item, name, None)
                    if name not in _ONLY_SPELLING and value is not None and value != []:
                        owed += [value, _Word(f".{name}")]
            case list():
                yield f"[{len(item)}"
                owed.extend(reversed(item))
            case _Word():
                yield item.text
            case _:
                yield f"{type(item).__name__} {item!r}"


@dataclass(frozen=True, slots=True)
class _Word:
    text: str


def _imports(tree: ast.AST) -> Iterator[Import]:
    for node in ast.walk(tree):
        match node:
            case ast.Import():
                yield from (Import(each.name) for each in node.names)
            case ast.ImportFrom():
                yield Import(node.module or "", node.level, tuple(each.name for each in node.names))
            case ast.Call(args=[ast.Constant(value=str() as name), *_]) if _called(node.func) in _IMPORTERS:
                yield Import(name.lstrip("."), len(name) - len(name.lstrip(".")))


def _called(function: ast.expr) -> str:
    match function:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case _:
            return ""
