"""Solvers for Python tasks."""

from labrunner.solve.command import command_solver as command
from labrunner.solve.environment import sandbox
from labrunner.solve.limits import LimitExceeded
from labrunner.solve.react import react
from labrunner.solve.solver import Generate, Solver, solver
from labrunner.solve.solvers import (
    assistant_message,
    chain,
    chain_of_thought,
    generate,
    multiple_choice,
    prompt_template,
    system_message,
    use_tools,
    user_message,
)
from labrunner.solve.state import Store, TaskState

__all__ = [
    "Generate",
    "LimitExceeded",
    "Solver",
    "Store",
    "TaskState",
    "assistant_message",
    "chain",
    "chain_of_thought",
    "command",
    "generate",
    "multiple_choice",
    "prompt_template",
    "react",
    "sandbox",
    "solver",
    "system_message",
    "use_tools",
    "user_message",
]
