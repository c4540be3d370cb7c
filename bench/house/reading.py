"""Reads the source as a house: its modules, what each imports, and what it defines. Nothing is executed.

Imports inside functions and under `TYPE_CHECKING` count like any other: who reads one file needs the other.
"""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

PACKAGE: Final = "labrunner"
SOURCE: Final = Path(__file__).parents[2] / "src" / PACKAGE
ROOMS_OF_ONE: Final = frozenset({"errors", "registry", "version"})
"""Files directly in the package that are no public face."""
NOT_OURS: Final = "templates"
"""Files that are written for a person's folder, and are no part of the house."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Function:
    """A function or method, and how long it is."""

    name: str
    lines: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Module:
    """One file of the source."""

    name: str
    """Without the package's own: `runner.sitting.queue`; `` for the package itself."""
    is_package: bool
    lines: int
    imports: frozenset[str]
    classes: tuple[str, ...]
    functions: tuple[Function, ...]

    @property
    def stem(self) -> str:
        return self.name.rpartition(".")[2]

    @property
    def room(self) -> str:
        """The folder it stands in, dotted; `` for the public faces."""
        alone = self.is_package or self.name in ROOMS_OF_ONE
        return self.name if alone else self.name.rpartition(".")[0]


House = dict[str, Module]
"""Modules by name."""


def read_house(source: Path = SOURCE) -> House:
    """Read every module below a package's folder."""
    files = {_name(source, path): path for path in sorted(source.rglob("*.py")) if NOT_OURS not in path.parts}
    return {name: _read(name, path, source.name, frozenset(files)) for name, path in files.items()}


def _name(source: Path, path: Path) -> str:
    parts = path.relative_to(source).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _read(name: str, path: Path, package: str, known: frozenset[str]) -> Module:
    text = path.read_text("utf-8")
    nodes = list(ast.walk(ast.parse(text)))
    found = {target for node in nodes for target in _targets(node, package, known)}
    return Module(
        name=name,
        is_package=path.name == "__init__.py",
        lines=len(text.splitlines()),
        imports=frozenset(found - {name}),
        classes=tuple(node.name for node in nodes if isinstance(node, ast.ClassDef)),
        functions=tuple(_measure(nodes)),
    )


def _targets(node: ast.AST, package: str, known: frozenset[str]) -> Iterator[str]:
    """Modules that a statement imports. `from a import b` is `a.b` where that is a module, else `a`."""
    match node:
        case ast.Import(names=names):
            asked = [alias.name for alias in names]
        case ast.ImportFrom(module=str(module), names=names):
            asked = [f"{module}.{alias.name}" for alias in names]
        case _:
            return
    for dotted in asked:
        if dotted == package or dotted.startswith(f"{package}."):
            inside = dotted[len(package) + 1 :]
            yield inside if inside in known else inside.rpartition(".")[0]


def _measure(nodes: list[ast.AST]) -> Iterator[Function]:
    for node in nodes:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield Function(name=node.name, lines=(node.end_lineno or node.lineno) - node.lineno + 1)
