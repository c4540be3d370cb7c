"""Keywords of `eval()` and its kin, made from the table of options and the settings of models.

Types for checkers and editors are in the stub beside this file, which `python -m tests.kit.experiment.stubs`
writes.
"""

from typing import Any, TypedDict

from labrunner.experiment.options.table import OPTIONS
from labrunner.solve.values.config import SETTINGS


def _keywords(*functions: str) -> dict[str, Any]:
    options = [each.name for each in OPTIONS if not set(functions).isdisjoint(each.functions)]
    return dict.fromkeys([*options, *SETTINGS], Any)


EvalSetOptions = TypedDict("EvalSetOptions", _keywords("eval_set"), total=False)
EvalOptions = TypedDict("EvalOptions", _keywords("eval_set", "eval_retry"), total=False)
NewEvalOptions = TypedDict("NewEvalOptions", _keywords("eval_set", "eval_retry", "eval"), total=False)
