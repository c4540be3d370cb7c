"""The tools that come with the package: a shell and Python, in the trial's sandbox."""

from collections.abc import Awaitable, Callable
from typing import Final

from labrunner.solve.models.environment import ExecResult, sandbox
from labrunner.solve.values.tool import tool

_SHELL: Final = ("/bin/sh", "-c", 'b=$(command -v bash) || b=/bin/sh; exec "$b" -l -c "$1"', "sh")
"""bash, or what an image without it has."""


@tool
def bash(timeout: float | None = None, user: str | None = None) -> Callable[[str], Awaitable[str]]:
    """A shell; `timeout` in seconds for each command."""

    async def execute(cmd: str) -> str:
        """Run a bash command in the working directory of the sandbox.

        Args:
            cmd: The command to run.
        """
        return shown(await sandbox().exec([*_SHELL, cmd], timeout=timeout, user=user))

    return execute


@tool
def python(timeout: float | None = None, user: str | None = None) -> Callable[[str], Awaitable[str]]:
    """Python; `timeout` in seconds for each program."""

    async def execute(code: str) -> str:
        """Run a Python program in the working directory of the sandbox, and see what it prints.

        Each call starts afresh: nothing but files is left of the calls before.

        Args:
            code: The program.
        """
        return shown(await sandbox().exec(["python3", "-"], input=code, timeout=timeout, user=user))

    return execute


def shown(result: ExecResult) -> str:
    """What a model sees of a command: errors first, then output."""
    parts = [part for part in (result.stderr, result.stdout) if part]
    return "\n".join(parts)
