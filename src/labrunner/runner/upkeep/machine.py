"""What can be checked of a machine without an experiment: where runs would lie, and which sandboxes work."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from labrunner.errors import InputError
from labrunner.experiment.sandbox_kinds import KINDS
from labrunner.registry import Known
from labrunner.runner.upkeep.preflight import check_place
from labrunner.sandbox.door import Check
from labrunner.sandbox.registry import find_kind

ROOM_GB: Final = 5.0
"""What experiments ask for unless they say otherwise."""


async def examine_machine(runs_dir: Path) -> tuple[Check, ...]:
    """Look at storage, and try each kind of sandbox; nothing here is an error, for nothing was asked for."""
    tried = [await _try(known) for known in KINDS.list_known() if not known.problem]
    checks = [*check_place(runs_dir, ROOM_GB), *(check for each in tried for check in each.checks)]
    if not any(each.may_isolate for each in tried):
        bare = " and ".join(f"`{each.name}`" for each in tried if not each.is_isolated)
        told = f"of the sandboxes only {bare} works here, which isolates nothing"
        checks.append(Check(name="sandbox", passed=False, message=told))
    return tuple(
        Check(name=each.name, passed=each.passed, message=each.message, severity="warning") for each in checks
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Tried:
    """What was found of a kind."""

    name: str
    is_isolated: bool
    checks: tuple[Check, ...]

    @property
    def may_isolate(self) -> bool:
        """Whether an isolated sandbox can be had from it, as far as is known."""
        return self.is_isolated and (not self.checks or self.checks[0].passed)


async def _try(known: Known) -> _Tried:
    try:
        kind = find_kind(known.name)
    except InputError as error:
        broken = Check(name=known.name, passed=False, message=error.problem)
        return _Tried(name=known.name, is_isolated=True, checks=(broken,))
    checks = await kind.examine() if kind.examine is not None else ()
    return _Tried(name=known.name, is_isolated=kind.is_isolated, checks=checks)
