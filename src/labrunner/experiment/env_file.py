"""Where values of secrets are looked up: a file of K=V lines, then our own environment."""

import os
from collections.abc import Mapping
from pathlib import Path

from labrunner.errors import InputError


def read_env_file(path: Path | None) -> dict[str, str]:
    """Read K=V lines: blank lines and # comments are passed over, `export` and matching quotes taken off."""
    if path is None:
        return {}
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(str(path), f"can't be read as an env file: {error}") from error
    return dict(_env_line(path, number, line) for number, line in enumerate(lines, 1) if _has_content(line))


def secrets_from(env_file: Path | None) -> Mapping[str, str]:
    """Where values of secrets are looked up: the env file first, then our own environment."""
    return {**os.environ, **read_env_file(env_file)}


def _has_content(line: str) -> bool:
    return bool(line.strip()) and not line.strip().startswith("#")


def _env_line(path: Path, number: int, line: str) -> tuple[str, str]:
    name, equals, value = line.strip().removeprefix("export ").partition("=")
    if not equals or not name.strip().isidentifier():
        # The line itself is not shown: it may hold a secret.
        raise InputError(f"{path}:{number}", "expected NAME=VALUE")
    value = value.strip()
    if len(value) > 1 and value[0] == value[-1] and value[0] in "\"'":
        value = value[1:-1]
    return name.strip(), value
