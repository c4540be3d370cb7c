"""Scripts between `lab` and graders of other people's tasks: POSIX `sh`, and Python where tasks have it.

They are commands of experiments as they are: what is digested with a grader is their text.
"""

from functools import cache
from importlib import resources


@cache
def read_shim(name: str) -> str:
    """The text of a script, without its comments at the head."""
    file = name if "." in name else f"{name}.sh"
    text = (resources.files(__name__) / file).read_text(encoding="utf-8")
    lines = text.splitlines(keepends=True)
    first = next(at for at, line in enumerate(lines) if not line.startswith("#"))
    return "".join(lines[first:]).strip() + "\n"
