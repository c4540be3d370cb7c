"""Where values of secrets are looked up: a file of NAME=VALUE lines, then our own environment.

Files are read by python-dotenv: `export`, comments, quotes, values of several lines in quotes. Stricter than
that, a line that sets nothing is refused; and `$NAME` in a value means itself.
"""

import io
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from labrunner.errors import InputError

if TYPE_CHECKING:
    from dotenv.parser import Binding

_LINE_END: Final = re.compile(r"\r\n|\n|\r")


def read_env_file(path: Path | None) -> dict[str, str]:
    """Read a file's names and values, the last of each name. Raises InputError."""
    if path is None:
        return {}
    from dotenv.parser import parse_stream  # only few commands need it

    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(str(path), f"can't be read as an env file: {error}") from error
    return dict(_read(path, each) for each in parse_stream(io.StringIO(text)) if each.key or each.error)


def secrets_from(env_file: Path | None) -> Mapping[str, str]:
    """Where values of secrets are looked up: the env file first, then our own environment."""
    return {**os.environ, **read_env_file(env_file)}


def _read(path: Path, found: "Binding") -> tuple[str, str]:
    if found.error or found.key is None or found.value is None or not found.key.isidentifier():
        # The line itself is not shown: it may hold a secret.
        raise InputError(f"{path}:{_line_of(found)}", "expected NAME=VALUE")
    return found.key, found.value


def _line_of(found: "Binding") -> int:
    """The line on which something begins: what was found has the empty lines before it, too."""
    text = found.original.string
    before = text[: len(text) - len(text.lstrip())]
    return found.original.line + len(_LINE_END.findall(before))
