"""Tools for Python tasks."""

from labrunner.solve.environment import ExecResult, SandboxEnvironment, sandbox
from labrunner.solve.tool import Tool, ToolError, tool
from labrunner.solve.toolcalls import execute_tools
from labrunner.solve.tools import bash, python

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
