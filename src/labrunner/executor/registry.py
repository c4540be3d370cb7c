"""Who can carry attempts out, by name."""

from collections.abc import Callable
from typing import Final, TypeAlias, TypeGuard

from labrunner.errors import InputError
from labrunner.executor.door import Executor
from labrunner.experiment.options.table import flag
from labrunner.experiment.run_policy import LOCAL
from labrunner.registry import Registry
from labrunner.sandbox.door import SandboxMaker
from labrunner.trial.assignment import TrialContext

RAY: Final = "ray"
MakesExecutor: TypeAlias = Callable[[TrialContext, Callable[[str], SandboxMaker]], Executor]
"""From what all attempts of a run share, and how sandboxes of a kind are made, to who carries them out."""
FindsExecutor: TypeAlias = Callable[[str, TrialContext, Callable[[str], SandboxMaker]], Executor]
"""The same for whoever has a name."""


def _makes_executor(found: object) -> TypeGuard[MakesExecutor]:
    return callable(found)


EXECUTORS: Final = Registry(
    group="labrunner.executors",
    noun="executor",
    built_in={
        LOCAL: "labrunner.executor.local:LocalExecutor",
        RAY: "labrunner.executor.cluster.cluster_executor:RayExecutor",
    },
    accepts=_makes_executor,
    wanted="what makes an Executor of a TrialContext and a way to make sandboxes",
)


def takes_own_code(name: str) -> bool:
    """Whether the executor of a name carries out, elsewhere, attempts whose code is not its own."""
    from labrunner.executor.cargo import TakesOwnCode  # for Python tasks

    # What its class has, an executor has: none is made to be asked.
    return isinstance(EXECUTORS.find(name, flag("executor")), TakesOwnCode)


def make_named_executor(name: str, context: TrialContext, make: Callable[[str], SandboxMaker]) -> Executor:
    """Make the executor of that name."""
    made: object = EXECUTORS.find(name, flag("executor"))(context, make)
    if not isinstance(made, Executor):
        told = f"the executor {name!r} must be made an Executor, found a {type(made).__name__}"
        raise InputError(flag("executor"), told)
    return made
