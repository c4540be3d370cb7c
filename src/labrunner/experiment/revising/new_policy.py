"""Setting fields of a run's policy anew, by the rules of experiment files, when the run goes on.

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
from labrunner.experiment.resolved import Policy
from labrunner.experiment.resolving.overrides import Overrides, apply_overrides
from labrunner.experiment.resolving.resolution import make_policy

SETTABLE: Final = tuple(each.name for each in fields(Policy) if each.name in ExperimentFile.model_fields)
"""Fields of experiment files that are policy."""
_STAND_IN: Final = {"name": "policy", "tasks": "policy"}
"""What a file must have, and no policy depends on."""


def set_policy(policy: Policy, sets: Sequence[tuple[str, str]]) -> Policy:
    """Lay fields and their values, as `--set` takes them, over a policy. Raises InputError, InputErrors."""
    for name, text in sets:
        if name.partition(".")[0] not in SETTABLE:
            raise InputError(
                f"--set {name}={text}",
                f"is not policy, and a run goes on with what it began to measure; can be set: "
                f"{', '.join(SETTABLE)}; to run with what changed: lab retry",
            )
    given = make_policy(_decode(sets))
    for name, _ in sets:
        part, _, field = name.partition(".")
        value = getattr(given, part)
        if field:
            value = replace(getattr(policy, part), **{field: getattr(value, field)})
        policy = replace(policy, **{part: value})
    return policy


def _decode(sets: Sequence[tuple[str, str]]) -> ExperimentFile:
    root = Place(file="--set", line=None, folder=Path())
    written = apply_overrides(Document(data=dict(_STAND_IN), places={(): root}), Overrides(sets=tuple(sets)))
    problems = Problems()
    file = validate(ExperimentFile, written.data, written.where, problems)
    problems.stop_if_any()
    if file is None:
        raise AssertionError("what can't be decoded has a problem")
    return file
