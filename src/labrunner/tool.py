"""Tools for Python tasks."""

from labrunner.solve.library.tools import bash, python
from labrunner.solve.models.environment import ExecResult, SandboxEnvironment, sandbox
from labrunner.solve.models.toolcalls import execute_tools
from labrunner.solve.values.tool import Tool, ToolError, tool

__all__ = [
    "ExecResult",
    "SandboxEnvironment",
    "Tool",
    "ToolError",
    "bash",
    "execute_tools",
    "python",
    "sandbox",
    "tool",
]
