"""Deciding a run's policy anew, by the rules of experiment files, when the run goes on.

Only policy can be set: what a run measures stays what it was when it began.
"""

from collections.abc import Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Final

from labrunner.errors import InputError
from labrunner.experiment.authoring.authored import ExperimentFile
from labrunner.experiment.authoring.document import Document, Place
from labrunner.experiment.authoring.problems import Problems, validate
from labrunner.experiment.options.overrides import Overrides
from labrunner.experiment.resolving.overlay import FieldSet, apply_overrides, fields_set, policy_parts
from labrunner.experiment.resolving.resolution import make_policy
from labrunner.experiment.run_policy import Policy

SETTABLE: Final = tuple(each.name for each in fields(Policy) if each.name in ExperimentFile.model_fields)
"""Fields of experiment files that are policy."""
_STAND_IN: Final = {"name": "policy", "tasks": "policy"}
"""What a file must have, and no policy depends on."""


def change_policy(policy: Policy, asked: Overrides) -> Policy:
    """Lay options over a policy. Raises InputError, InputErrors."""
    laid = fields_set(asked)
    _refuse_measured(laid)
    given = make_policy(_decode(asked)) if laid else policy
    for _, (part, *below), _ in laid:
        value = getattr(given, str(part))
        if below:
            field = str(below[0])
            value = replace(getattr(policy, str(part)), **{field: getattr(value, field)})
        policy = replace(policy, **{str(part): value})
    return replace(policy, **policy_parts(asked))


def _refuse_measured(laid: Sequence[FieldSet]) -> None:
    for option, path, _ in laid:
        if path[0] not in SETTABLE:
            raise InputError(
                option,
                f"is not policy, and a run goes on with what it began to measure; can be set: "
                f"{', '.join(SETTABLE)}; to run with what changed: lab retry",
            )


def _decode(asked: Overrides) -> ExperimentFile:
    root = Place(file="a run's policy", line=None, folder=Path())
    written = apply_overrides(Document(data=dict(_STAND_IN), places={(): root}), asked)
    problems = Problems()
    file = validate(ExperimentFile, written.data, written.where, problems)
    problems.stop_if_any()
    if file is None:
        raise AssertionError("what can't be decoded has a problem")
    return file
