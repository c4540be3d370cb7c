"""What a Dockerfile says of the container that its image becomes: folder, user, variables, entry point.

Read are instructions of the last stage, and of the stages of the same file that it is made from. What comes
from an image elsewhere is not known here. What only BuildKit builds is named, because it can't be built.
"""

import json
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Final

from labrunner.interop.importers.foreign_files import read_foreign

_ESCAPED_END: Final = re.compile(r"\\[ \t]*\n")
_COMMENT: Final = re.compile(r"^[ \t]*#.*\n", re.MULTILINE)
_HEREDOC: Final = re.compile(r"<<-?\s*[\"']?[A-Za-z_]\w*")
_NEW_FLAGS: Final = re.compile(r"^--(mount|chmod|link|parents|network|security|exclude|checksum)\b")
_VARIABLE: Final = re.compile(r"\$(?:\{(\w+)\}|(\w+))")


@dataclass(slots=True, kw_only=True)
class ImageWords:
    """What the last stage of a Dockerfile says."""

    workdir: str | None = None
    user: str | None = None
    env: dict[str, str] = field(default_factory=dict)
    entrypoint: tuple[str, ...] = ()
    healthcheck: str | None = None
    needs_buildkit: str | None = None
    """The first instruction that the classic builder does not know."""


def read_dockerfile(path: Path) -> ImageWords:
    """Read a Dockerfile; OSError where it can't be read, UnicodeDecodeError where it is no text."""
    return read_words(read_foreign(path))


def read_words(text: str) -> ImageWords:
    """Read the text of a Dockerfile."""
    stages: dict[str, ImageWords] = {}
    words, new = ImageWords(), _find_new(text)
    for name, rest in _instructions(text):
        if name == "FROM":
            parts = [part for part in rest.split() if not part.startswith("--")]
            base = stages.get(parts[0].lower()) if parts else None
            words = ImageWords() if base is None else _copy(base)
            stages[str(len(stages))] = words
            if len(parts) > 2 and parts[1].upper() == "AS":
                stages[parts[2].lower()] = words
        else:
            _hear(words, name, rest)
    words.needs_buildkit = new
    return words


def _copy(words: ImageWords) -> ImageWords:
    return ImageWords(
        workdir=words.workdir,
        user=words.user,
        env=dict(words.env),
        entrypoint=words.entrypoint,
        healthcheck=words.healthcheck,
    )


def _hear(words: ImageWords, name: str, rest: str) -> None:
    match name:
        case "WORKDIR":
            folder = PurePosixPath(words.workdir or "/") / _fill(rest.strip().strip("\"'"), words.env)
            words.workdir = str(folder)
        case "USER":
            words.user = _fill(rest.strip(), words.env)
        case "ENV":
            words.env |= {key: _fill(value, words.env) for key, value in _pairs(rest)}
        case "ENTRYPOINT":
            words.entrypoint = _command(rest)
        case "HEALTHCHECK":
            words.healthcheck = None if rest.strip().upper() == "NONE" else rest.strip()
        case _:
            pass  # says how the image is made, not what its containers are


def _instructions(text: str) -> Iterator[tuple[str, str]]:
    joined = _ESCAPED_END.sub(" ", _COMMENT.sub("", text.replace("\r\n", "\n") + "\n"))
    for line in joined.splitlines():
        name, _, rest = line.strip().partition(" ")
        if name:
            yield name.upper(), rest.strip()


def _find_new(text: str) -> str | None:
    for name, rest in _instructions(text):
        if name in {"RUN", "COPY", "ADD"}:
            flag = _NEW_FLAGS.match(rest)
            if flag is not None and flag[1] != "network":
                return f"{name} {flag[0]}"
            if _HEREDOC.search(rest) and (name != "RUN" or rest.startswith("<<")):
                return f"{name} with a here-document"
    return None


def _pairs(rest: str) -> Iterator[tuple[str, str]]:
    first = rest.split(None, 1)
    if first and "=" not in first[0]:  # the old form, one variable a line
        yield first[0], first[1] if len(first) > 1 else ""
        return
    try:
        words = shlex.split(rest)
    except ValueError:
        return
    for word in words:
        key, _, value = word.partition("=")
        yield key, value


def _command(rest: str) -> tuple[str, ...]:
    try:
        parts = json.loads(rest)
    except ValueError:
        return ("/bin/sh", "-c", rest)
    return tuple(map(str, parts)) if isinstance(parts, list) else ("/bin/sh", "-c", rest)


def _fill(text: str, env: dict[str, str]) -> str:
    """Put variables of the same file in; what is not known stays, for the caller to refuse."""
    return _VARIABLE.sub(lambda match: env.get(match[1] or match[2], match[0]), text)
