"""Options for tasks that are written in Python: models, arguments, limits. All are recorded with the run."""

from collections.abc import Mapping
from typing import Any, Final

from labrunner.experiment.options import kinds, spelling
from labrunner.experiment.options.option import CONTINUED, Entry, Kept, Override, PolicyPart, RunOption

_LIMITS: Final = Override("limits", Mapping[str, Any], "name by name")

PYTHON_OPTIONS: Final = (
    RunOption(
        name="model",
        goal=Kept(Override("model", str | None)),
        flags=("--model",),
        help="a Python task's model: provider/name, or mock/echo; a run for each (repeatable)",
        word=list[str],
        read=spelling.as_one,
        functions=(),
        is_for_python_tasks=True,
    ),
    RunOption(
        name="model_base_url",
        goal=Kept(Override("model_base_url", str | None)),
        flags=("--model-base-url",),
        help="where the model's provider answers",
        kind=kinds.TEXT,
        is_for_python_tasks=True,
    ),
    RunOption(
        name="task_args",
        goal=Kept(Override("task_arguments", Mapping[str, Any], "name by name")),
        flags=("-T",),
        help="name=value: an argument of @task (repeatable)",
        word=list[str],
        variable_name="LAB_TASK_ARGS",
        read=spelling.as_values_by_name,
        kind=kinds.MAP,
        about="Arguments of `@task` functions.",
        take=spelling.as_map,
        is_for_python_tasks=True,
    ),
    RunOption(
        name="generate",
        goal=Kept(Override("generate", Mapping[str, Any], "name by name")),
        flags=("-G",),
        help="name=value: a setting of the model (repeatable)",
        word=list[str],
        variable_name="LAB_GENERATE",
        read=spelling.as_values_by_name,
        functions=(),
        is_for_python_tasks=True,
    ),
    RunOption(
        name="max_connections",
        goal=PolicyPart(Override("max_connections", int | None), "max_connections"),
        flags=("--max-connections",),
        help="requests at once to a model's provider (10)",
        commands=CONTINUED,
        going_on="requests at once to a model's provider",
        word=int,
        least=1,
        kind=kinds.COUNT,
        is_for_python_tasks=True,
    ),
    RunOption(
        name="max_retries",
        goal=PolicyPart(Override("max_retries", int | None), "max_retries"),
        kind=kinds.COUNT_OR_NONE,
        is_for_python_tasks=True,
    ),
    RunOption(
        name="timeout",
        goal=PolicyPart(Override("request_timeout_s", float | None), "request_timeout_s"),
        kind=kinds.POSITIVE,
        is_for_python_tasks=True,
    ),
    RunOption(
        name="time_limit",
        goal=Entry(_LIMITS, "time_s"),
        flags=("--time-limit",),
        help="seconds for an attempt at a Python task's sample",
        word=float,
        annotation="float",
        is_for_python_tasks=True,
    ),
    RunOption(
        name="working_limit",
        goal=Entry(_LIMITS, "working_s"),
        flags=("--working-limit",),
        help="the same, without waiting for providers",
        word=float,
        annotation="float",
        is_for_python_tasks=True,
    ),
    RunOption(
        name="message_limit",
        goal=Entry(_LIMITS, "messages"),
        flags=("--message-limit",),
        help="messages of an attempt's conversation",
        word=int,
        annotation="int",
        is_for_python_tasks=True,
    ),
    RunOption(
        name="token_limit",
        goal=Entry(_LIMITS, "tokens"),
        flags=("--token-limit",),
        help="tokens of an attempt",
        word=int,
        annotation="int",
        is_for_python_tasks=True,
    ),
    RunOption(
        name="cost_limit",
        goal=Entry(_LIMITS, "cost_usd"),
        flags=("--cost-limit",),
        help="US dollars of an attempt",
        word=float,
        annotation="float",
        is_for_python_tasks=True,
    ),
)
