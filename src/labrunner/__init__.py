"""labrunner: agents on benchmark tasks, graded in their own sandbox, committed durably in order.

Names for Python tasks are loaded when they are first asked for: `import labrunner` costs nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from labrunner.version import VERSION

if TYPE_CHECKING:
    from labrunner.evaluation.evaluate import (
        eval,
        eval_async,
        eval_retry,
        eval_retry_async,
        eval_set,
        eval_set_async,
    )
    from labrunner.solve.resolving.task import Task, task
    from labrunner.solve.scoring.metrics import Epochs

__version__: Final = VERSION
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
    "Epochs": "labrunner.solve.scoring.metrics",
    "Task": "labrunner.solve.resolving.task",
    "task": "labrunner.solve.resolving.task",
    "eval": "labrunner.evaluation.evaluate",
    "eval_async": "labrunner.evaluation.evaluate",
    "eval_retry": "labrunner.evaluation.evaluate",
    "eval_retry_async": "labrunner.evaluation.evaluate",
    "eval_set": "labrunner.evaluation.evaluate",
    "eval_set_async": "labrunner.evaluation.evaluate",
}


def __getattr__(name: str) -> Any:  # noqa: ANN401 - whatever is asked for
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'labrunner' has no attribute {name!r}")
    return getattr(import_module(home), name)
