"""Carrying out attempts on this machine."""

import asyncio
from collections.abc import Callable

from labrunner.executor.door import Leavings
from labrunner.experiment.model import SandboxKind, SandboxPlan
from labrunner.records.completion import Completion
from labrunner.sandbox.door import Check, SandboxMaker
from labrunner.trial.assignment import Assignment, Notes, TrialContext, set_scene
from labrunner.trial.attempt import carry_out
from labrunner.trial.removal import remove_tree


class LocalExecutor:
    """Runs each attempt in a sandbox of this machine; its files already lie where they belong."""

    def __init__(self, context: TrialContext, make: Callable[[SandboxKind], SandboxMaker]) -> None:
        """Take what all attempts share, and how sandboxes of a kind are made."""
        self._context = context
        kinds = {variant.sandbox.kind for variant in context.experiment.variants}
        self._makers = {kind: make(kind) for kind in sorted(kinds)}

    async def preflight(self) -> tuple[Check, ...]:
        """Launch one real sandbox for each different plan of the experiment."""
        checks: list[Check] = []
        for plan in self._plans():
            checks += await self._makers[plan.kind].preflight(plan)
        return tuple(dict.fromkeys(checks))

    async def carry_out(self, assignment: Assignment, notes: Notes) -> Completion:
        """Carry out one attempt."""
        variant = self._context.experiment.variants[assignment.slot.variant_idx]
        return await carry_out(self._context, assignment, self._makers[variant.sandbox.kind], notes)

    async def release(self, assignment: Assignment, drop: Leavings) -> None:
        """Remove workspace and logs where the policy does not keep them."""
        folders = set_scene(self._context, assignment).folders
        gone = [folders.workspace] if drop.workspace else []
        gone += [folders.logs] if drop.logs else []
        for folder in gone:
            await asyncio.to_thread(remove_tree, folder)

    def _plans(self) -> list[SandboxPlan]:
        plans = {repr(variant.sandbox): variant.sandbox for variant in self._context.experiment.variants}
        return list(plans.values())
