"""labrunner: agents on benchmark tasks, graded in their own sandbox, committed durably in order.

Names for Python tasks are loaded when they are first asked for: `import labrunner` costs nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from labrunner.evaluation import (
        eval,
        eval_async,
        eval_retry,
        eval_retry_async,
        eval_set,
        eval_set_async,
    )
    from labrunner.solve.metrics import Epochs
    from labrunner.solve.task import Task, task

__version__: Final = "0.1.0"
__all__ = [
    "Epochs",
    "Task",
    "__version__",
    "eval",
    "eval_async",
    "eval_retry",
    "eval_retry_async",
    "eval_set",
    "eval_set_async",
    "task",
]

_HOMES: Final = {
    "Epochs": "labrunner.solve.metrics",
    "Task": "labrunner.solve.task",
    "task": "labrunner.solve.task",
    "eval": "labrunner.evaluation",
    "eval_async": "labrunner.evaluation",
    "eval_retry": "labrunner.evaluation",
    "eval_retry_async": "labrunner.evaluation",
    "eval_set": "labrunner.evaluation",
    "eval_set_async": "labrunner.evaluation",
}


def __getattr__(name: str) -> Any:  # noqa: ANN401 - whatever is asked for
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'labrunner' has no attribute {name!r}")
    return getattr(import_module(home), name)
