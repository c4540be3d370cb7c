"""What tasks themselves say of where and how long their agents run, told for all of them at once.

A task's own word counts, and a variant's where the task has none: as it would run.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from labrunner.display.text.quantities import format_count
from labrunner.experiment.resolved import Network, SandboxPlan, TaskSpec, Variant
from labrunner.trial.phases import merged_agent, merged_plan

DAY_S: Final = 24 * 3600
BY_TASK: Final = ", by task"
_FEW: Final = 3


def describe_times(tasks: Sequence[TaskSpec], variant: Variant) -> str:
    """Say how long agents may take."""
    own = {task.timeout_s for task in tasks}
    return _span({variant.agent.timeout_s if each is None else each for each in own}, describe_time)


def describe_time(seconds: float) -> str:
    """Say a limit; one of many days also in days."""
    days = f" ({seconds / DAY_S:g} days)" if seconds >= 2 * DAY_S else ""
    return f"{seconds:,.10g} s{days}"


def describe_networks(tasks: Sequence[TaskSpec], variant: Variant) -> str:
    """Say what agents may reach."""
    if variant.sandbox.is_none:
        return ""
    own = {id(task.agent): task for task in tasks}.values()
    told = list(dict.fromkeys(describe_network(merged_agent(task, variant).network) for task in own))
    more = [f"{len(told) - _FEW} more"] if len(told) > _FEW else []
    return "; or ".join([*told[:_FEW], *more]) + (BY_TASK if len(told) > 1 else "")


def describe_network(network: Network) -> str:
    """Say what a phase may reach."""
    models = f"models: {', '.join(network.models)}" if network.models else ""
    if network.mode == "none" and models:
        return models
    rest = f"allowed: {', '.join(network.hosts)}" if network.mode == "allow" else network.mode
    return f"{models}; {rest}" if models else rest


def describe_images(tasks: Sequence[TaskSpec]) -> str:
    """Say which images tasks bring."""
    built = sum(task.build is not None for task in tasks)
    named = list(dict.fromkeys(task.image for task in tasks if task.image is not None))
    told = [f"built for {format_count(built, 'task')}"] if built else []
    told += named if len(named) <= _FEW else [f"{len(named)} that tasks name"]
    return ", ".join(told)


def describe_sandboxes(tasks: Sequence[TaskSpec], variant: Variant) -> str:
    """Say where attempts run, and within which limits."""
    plan = variant.sandbox
    if plan.is_none:
        return plan.kind
    plans = [merged_plan(task, variant) for task in tasks]
    image = f" {plan.image}" if any(each.image == plan.image for each in plans) and plan.image else ""
    asked = list(dict.fromkeys(name for each in plans for name in each.asked))
    told = f"; asked for: {', '.join(asked)}" if asked else ""
    return f"{plan.kind}{image}; {_describe_limits(plans)} ({plan.limits}{told})"


def _describe_limits(plans: Sequence[SandboxPlan]) -> str:
    limits = (
        _span({each.cpus for each in plans}, lambda value: f"{value:g}", "cpus"),
        _span({each.memory_mb for each in plans}, str, "MB memory"),
        _span({each.pids for each in plans}, str, "processes"),
        _span({each.disk_mb for each in plans}, str, "MB disk"),
    )
    return ", ".join(limits)


def _span(values: Iterable[float], tell: Callable[[float], str], unit: str = "") -> str:
    """One value, or the least and the most of them."""
    found = sorted(set(values))
    told = tell(found[0]) if len(found) == 1 else f"{tell(found[0])} to {tell(found[-1])}"
    return f"{told}{' ' if unit else ''}{unit}{BY_TASK if len(found) > 1 and not unit else ''}"
