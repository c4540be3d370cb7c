"""Solvers for Python tasks."""

from labrunner.solve.authoring.command import command_solver as command
from labrunner.solve.authoring.solver import Generate, Solver, solver
from labrunner.solve.library.react import react
from labrunner.solve.library.solvers import (
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
from labrunner.solve.models.environment import sandbox
from labrunner.solve.values.meter import LimitExceeded
from labrunner.solve.values.state import Store, TaskState

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
