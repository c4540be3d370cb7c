"""The tokens by which the gateway knows the phases of an attempt.

Rules: one follows from the token of its dispatch, so that who takes the attempt over knows it, and the other
way round nothing follows. It is worth nothing elsewhere, nor later, and is masked like a secret all the same.
"""

import hashlib
from collections.abc import Iterable
from typing import Final

from labrunner.gateway.holders import TOKEN_LENGTH
from labrunner.sandbox.door import PhaseName
from labrunner.trial import phases
from labrunner.trial.assignment import AttemptScene

PHASES: Final[tuple[PhaseName, ...]] = ("setup", "agent", "grader")
"""Those that may have doors."""


def make_door_token(dispatch: str, phase: PhaseName) -> str:
    """The token of one phase."""
    return hashlib.sha256(f"gateway {phase} {dispatch}".encode()).hexdigest()[:TOKEN_LENGTH]


def name_tokens(dispatch: str, names: Iterable[PhaseName]) -> dict[str, str]:
    """Tokens of phases, by what stands in their place where they are masked."""
    return {f"{name}_token": make_door_token(dispatch, name) for name in names}


def find_tokens(scene: AttemptScene) -> dict[str, str]:
    """The same of all phases of an attempt that have doors."""
    networks = phases.demands(scene.context.experiment, scene.task, scene.variant).networks
    named = zip(PHASES, networks, strict=True)
    return name_tokens(scene.assignment.token, (name for name, network in named if network.has_doors))
