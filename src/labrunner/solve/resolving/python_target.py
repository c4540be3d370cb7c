"""Targets that name Python files: `ctf.py`, `ctf.py@name`."""


def is_python_target(text: str) -> bool:
    """Whether a target names a Python file, maybe with a task in it: `ctf.py`, `ctf.py@name`."""
    return split_target(text)[0].endswith(".py")


def split_target(text: str) -> tuple[str, str | None]:
    """Take a target apart: file, and the name behind its last `@`, if there is one."""
    file, at, name = text.rpartition("@")
    return (file, name) if at and file.endswith(".py") and name else (text, None)
