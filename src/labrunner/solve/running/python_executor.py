"""Carrying out attempts of Python tasks in this process, behind the executor's door."""

import asyncio
from collections.abc import Callable, Iterator
from functools import partial

from labrunner.errors import InputError
from labrunner.executor.door import Discard
from labrunner.executor.local import LocalExecutor
from labrunner.executor.release import release_attempt
from labrunner.experiment.addresses import find_password, reveal_address
from labrunner.experiment.run_policy import Policy
from labrunner.files.strangers.masking import Masker, make_masker
from labrunner.records.completion import Completion
from labrunner.sandbox.door import Check, SandboxMaker, Survivor
from labrunner.solve.models.asking import Model
from labrunner.solve.models.mailbox import Mailbox
from labrunner.solve.models.model_pool import ModelPool, Patience
from labrunner.solve.resolving.task_resolution import LiveTask, variant_of
from labrunner.solve.running.lane import Lanes
from labrunner.solve.running.python_attempt import SolveAttempt, Workshop
from labrunner.solve.values.task_folder import inside
from labrunner.trial.assignment import Assignment, Notes, TrialContext, set_scene


class SolveExecutor:
    """Runs solvers and scorers here, and what they call in sandboxes of this machine."""

    def __init__(
        self,
        context: TrialContext,
        make: Callable[[str], SandboxMaker],
        find_live: Callable[[], LiveTask],
    ) -> None:
        """Take what all attempts share, and how to come by the task's own code once it is needed."""
        self._context = context
        self._find_live = find_live
        plan = variant_of(context.experiment).sandbox
        self._maker = None if plan.is_none else make(plan.kind)
        self._local = None if self._maker is None else LocalExecutor(context, partial(_give, self._maker))
        self._made: Workshop | None = None

    @property
    def _shop(self) -> Workshop:
        if self._made is None:
            home, live = Mailbox(asyncio.get_running_loop()), self._find_live()
            self._made = Workshop(
                live=live,
                home=home,
                pool=ModelPool(_patience(self._context.experiment.policy)),
                lanes=Lanes(home),
                masker=_masker(self._context, live.model),
                maker=self._maker,
            )
        return self._made

    async def preflight(self) -> tuple[Check, ...]:
        """Make the model's client, and launch a sandbox where there is one."""
        sandboxes = await self._local.preflight() if self._local is not None else ()
        return (*sandboxes, *self._check_model())

    def outlives_runner(self, assignment: Assignment) -> bool:
        """Never: solvers live in this process."""
        del assignment
        return False

    async def carry_out(
        self, assignment: Assignment, notes: Notes, survivor: Survivor | None = None
    ) -> Completion:
        """Carry out one attempt."""
        del survivor
        return await SolveAttempt(set_scene(self._context, assignment), self._shop, notes).carry_out()

    async def release(self, assignment: Assignment, drop: Discard) -> None:
        """Remove what the policy does not keep of an attempt; its transcript stays."""
        if self._maker is None:
            return
        await release_attempt(self._maker, set_scene(self._context, assignment), drop)

    async def survivors(self) -> tuple[Survivor, ...]:
        """None can be taken up: a solver ended with its runner."""
        return ()

    async def reap(self, keep: frozenset[str]) -> int:
        """Remove what a crashed runner's attempts left."""
        return 0 if self._maker is None else await self._maker.reap(self._context.mark(), keep)

    async def close(self) -> None:
        """Let go of connections, lanes and sandboxes."""
        if self._made is not None:
            await self._made.pool.close()
            # Aside, because a lane may take seconds to end, and speaks to this loop until then.
            await asyncio.to_thread(self._made.lanes.close)
        if self._local is not None:
            await self._local.close()

    def _check_model(self) -> Iterator[Check]:
        model = self._shop.live.model
        if model is None or self._context.experiment.policy.is_strict_replay:
            return  # nobody is asked
        is_costed = self._shop.live.limits.cost_usd is not None
        try:
            with inside(self._shop.live.folder):
                backend = model.make_backend()
            is_unpriced = is_costed and not backend.has_price()
        except InputError as error:
            yield Check(name="model", passed=False, message=error.problem)
            return
        except Exception as error:  # noqa: BLE001 - a client's code is somebody else's, and may raise anything
            told = f"{model.name} can't be asked: {type(error).__name__}: {error}"
            yield Check(name="model", passed=False, message=told)
            return
        yield Check(name="model", passed=True, message=f"{model.name} can be asked")
        if is_unpriced:
            told = f"nobody knows what {model.name} costs, so a cost limit can't be held; limit its tokens"
            yield Check(name="cost limit", passed=False, message=told)


def _give(maker: SandboxMaker, kind: str) -> SandboxMaker:
    """The one maker of the run: a Python task has one kind of sandbox."""
    del kind
    return maker


def _patience(policy: Policy) -> Patience:
    return Patience(
        max_connections=policy.max_connections,
        max_retries=policy.max_retries,
        timeout_s=policy.request_timeout_s,
    )


def _masker(context: TrialContext, model: Model | None) -> Masker:
    """Mask what the task declares, and keys and passwords of providers, which are nobody's to read."""
    variant, grader = variant_of(context.experiment), context.experiment.tasks[0].grader
    declared = {*variant.agent.secrets, *grader.secrets}
    names = {*declared, *(name for name in context.secrets if name.endswith("_API_KEY"))}
    values = {name: context.secrets[name] for name in names if context.secrets.get(name)}
    return make_masker(values | _password(model))


def _password(model: Model | None) -> dict[str, str]:
    try:
        address = reveal_address(model.base_url, model.provider) if model is not None else None
    except InputError:
        return {}  # told by preflight
    password = find_password(address)
    return {"MODEL_PASSWORD": password} if password else {}
