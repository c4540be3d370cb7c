import msgspec
import pytest

from labrunner.runner.reuse.reuse import SlotFinder
from tests.kit.analysis.trial_rows import graded
from tests.kit.builders import make_experiment, make_task, make_variant

IN_PLACE = {"flags": ("system_changed",), "barrier": "restarted"}
AFRESH = {"flags": ("system_changed",), "barrier": "fresh_container"}
REFUSED = {"flags": ("not_graded", "system_changed"), "barrier": "restarted"}


@pytest.mark.parametrize(
    ("changes", "judged", "is_taken"),
    [
        ({}, IN_PLACE, False),
        ({"on_system_change": "refuse"}, IN_PLACE, False),
        ({"on_system_change": "flag", "trust": "strict"}, IN_PLACE, False),
        ({"on_system_change": "flag"}, IN_PLACE, True),
        ({"on_system_change": "ignore"}, IN_PLACE, True),
        ({}, AFRESH, True),
        ({}, REFUSED, True),
        ({}, {}, True),
    ],
)
def test_a_verdict_from_a_changed_system_is_taken_over_only_where_it_would_be_given(
    changes: dict[str, str], judged: dict[str, object], is_taken: bool
) -> None:
    experiment = make_experiment(tasks=(make_task(),), variants=(make_variant(),), **changes)
    task, variant = experiment.tasks[0], experiment.variants[0]
    row = msgspec.structs.replace(
        graded(variant.id, task.id), task_digest=task.digest, variant_digest=variant.digest, **judged
    )
    found = SlotFinder(experiment).objection(row, 0, frozenset())
    assert found == (None if is_taken else "judged in a system that its agent had changed")
