"""Carrying out attempts on this machine."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from labrunner.errors import AttemptFailed
from labrunner.executor.door import Discard
from labrunner.executor.release import release_attempt
from labrunner.executor.words import check_words
from labrunner.experiment.resolved import SandboxPlan, TaskSpec, Variant
from labrunner.records.completion import Completion
from labrunner.sandbox.door import Check, Demands, SandboxMaker, Survivor
from labrunner.trial import phases
from labrunner.trial.assignment import Assignment, Notes, TrialContext, set_scene
from labrunner.trial.attempt import carry_out
from labrunner.trial.phases import merged_plan

if TYPE_CHECKING:  # loaded only where a run has models or lists of hosts
    from labrunner.gateway.process.control import Lend, Stated
    from labrunner.gateway.process.owner import GatewayOwner

PROBES_AT_ONCE: Final = 8
NAMED: Final = 3
"""Tasks that a failed check names."""


class LocalExecutor:
    """Runs each attempt in a sandbox of this machine; its files already lie where they belong."""

    def __init__(
        self,
        context: TrialContext,
        make: Callable[[str], SandboxMaker],
        on_stated: "Callable[[Stated], None] | None" = None,
    ) -> None:
        """Take what all attempts share, and how sandboxes of a kind are made.

        `on_stated` hears how the gateway stands with the run's funds, where other machines have one, too.
        """
        self._context = context
        self._on_stated = on_stated
        kinds = {variant.sandbox.kind for variant in context.experiment.variants}
        self._makers = {kind: make(kind) for kind in sorted(kinds)}
        self._gateway: GatewayOwner | None = None

    async def preflight(self) -> tuple[Check, ...]:
        """Launch one real sandbox for each different plan of the experiment."""
        places = asyncio.Semaphore(PROBES_AT_ONCE)

        async def probe(asked: _Asked) -> tuple[Check, ...]:
            kind = asked.plan.kind
            async with places:
                try:
                    return await self._makers[kind].preflight(asked.plan, asked.demands)
                except AttemptFailed as failure:
                    return (Check(name=kind, passed=False, message=str(failure)),)

        every = self._asked()
        async with asyncio.TaskGroup() as group:
            probes = [group.create_task(probe(asked)) for asked in every]
        found: dict[Check, list[str]] = {}
        for asked, each in zip(every, probes, strict=True):
            for check in each.result():
                found.setdefault(check, []).extend(asked.tasks)
        checks = [self._name_tasks(check, tasks) for check, tasks in found.items()]
        return (*checks, *check_words(self._context, lambda variant: self._makers[variant.sandbox.kind]))

    def outlives_runner(self, assignment: Assignment) -> bool:
        """Whether its sandbox goes on when we are gone."""
        return self._maker(assignment).outlives_runner

    async def carry_out(
        self, assignment: Assignment, notes: Notes, survivor: Survivor | None = None
    ) -> Completion:
        """Carry out one attempt, or go on with one."""
        gateway = self._find_gateway(assignment)
        return await carry_out(self._context, assignment, self._maker(assignment), notes, survivor, gateway)

    async def release(self, assignment: Assignment, drop: Discard) -> None:
        """Remove what the policy does not keep of an attempt."""
        await release_attempt(self._maker(assignment), set_scene(self._context, assignment), drop)

    async def survivors(self) -> tuple[Survivor, ...]:
        """Ask every kind of sandbox."""
        found = [await maker.survivors(self._context.mark()) for maker in self._makers.values()]
        return tuple(survivor for each in found for survivor in each)

    async def reap(self, keep: frozenset[str]) -> int:
        """Tell every kind of sandbox."""
        return sum([await maker.reap(self._context.mark(), keep) for maker in self._makers.values()])

    async def find_gateway(self) -> bool:
        """Speak to the gateway that an owner before us left; whether there is one. Raises SandboxFailed."""
        from labrunner.gateway.process.introduction import find_place

        if not await find_place(self._context.trials_dir).answers():
            return False
        await self._own_gateway().find()
        return True

    async def lend(self, lend: "Lend") -> None:
        """Tell the gateway how the run's funds stand."""
        if self._gateway is not None:
            await self._gateway.lend(lend)

    async def close(self) -> None:
        """Close every maker, and let go of the gateway."""
        for maker in self._makers.values():
            await maker.close()
        if self._gateway is not None:
            await self._gateway.close()
            self._gateway = None

    def _find_gateway(self, assignment: Assignment) -> "GatewayOwner | None":
        """The run's gateway, where a phase of this attempt comes to it; its process is not started yet."""
        context, slot = self._context, assignment.slot
        task, variant = context.experiment.tasks[slot.task_idx], context.experiment.variants[slot.variant_idx]
        if not phases.demands(context.experiment, task, variant).has_doors:
            return None
        return self._own_gateway()

    def _own_gateway(self) -> "GatewayOwner":
        if self._gateway is None:
            from labrunner.gateway.process.introduction import find_place, greet
            from labrunner.gateway.process.owner import GatewayOwner

            context = self._context
            hello = greet(context.experiment, context.secrets, context.trials_dir)
            self._gateway = GatewayOwner(find_place(context.trials_dir), hello, self._on_stated)
        return self._gateway

    def _maker(self, assignment: Assignment) -> SandboxMaker:
        variant = self._context.experiment.variants[assignment.slot.variant_idx]
        return self._makers[variant.sandbox.kind]

    def _demands(self, task: TaskSpec, variant: Variant) -> Demands:
        asked = phases.demands(self._context.experiment, task, variant)
        return replace(asked, place=self._context.trials_dir)

    def _asked(self) -> list["_Asked"]:
        """Every different plan with what is asked of it."""
        experiment = self._context.experiment
        asked: dict[str, _Asked] = {}
        for task in experiment.tasks:
            for variant in experiment.variants:
                plan, demands = merged_plan(task, variant), self._demands(task, variant)
                each = asked.setdefault(repr((plan, demands)), _Asked(plan=plan, demands=demands))
                if not each.tasks or each.tasks[-1] != task.id:
                    each.tasks.append(task.id)
        return list(asked.values())

    def _name_tasks(self, check: Check, tasks: list[str]) -> Check:
        """Say which tasks' plan it is that can't be had, where it is not that of all."""
        asking = list(dict.fromkeys(tasks))
        if check.passed or len(asking) == len(self._context.experiment.tasks):
            return check
        named = ", ".join(asking[:NAMED]) + (", ..." if len(asking) > NAMED else "")
        noun = "task" if len(asking) == 1 else "tasks"
        return replace(check, message=f"{noun} {named}: {check.message}")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """One plan of a sandbox, and the tasks that ask for it."""

    plan: SandboxPlan
    demands: Demands
    tasks: list[str] = field(default_factory=list)
