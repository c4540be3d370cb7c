"""What becomes of whatever comes out of an attempt, of either kind of task."""

import ast
import asyncio
import errno
from pathlib import Path

import pytest

import labrunner
from labrunner.errors import OutOfFiles, ProviderFailed, StoreError
from labrunner.experiment.schedule import Slot
from labrunner.files.strangers.masking import make_masker
from labrunner.records.cause import Cause
from labrunner.records.completion import AttemptEnd, Evaluator, Failed, Graded
from labrunner.records.encoding.ids import make_trial_id
from labrunner.trial.assignment import Assignment, AttemptScene, TrialContext, set_scene
from labrunner.trial.ending import reach_end
from tests.kit.builders import make_experiment
from tests.kit.trial.attempting import HeardNotes

SOURCE = Path(labrunner.__file__).parent
PASSED = Graded(
    verdict="pass", primary_metric_name="pass", primary_metric_value=1.0, evaluator=Evaluator(name="grader")
)


def make_scene(trials_dir: Path) -> AttemptScene:
    experiment = make_experiment()
    context = TrialContext(
        experiment=experiment, run_id="run-1", trials_dir=trials_dir, host="here", secrets={}
    )
    trial_id = make_trial_id(experiment.variants[0].id, experiment.tasks[0].id, 0)
    slot = Slot(schedule_idx=0, variant_idx=0, task_idx=0, repl_idx=0)
    return set_scene(context, Assignment(token="token", slot=slot, trial_id=trial_id, attempt=1))


async def raise_it(error: BaseException) -> AttemptEnd:
    raise error


async def pass_it() -> AttemptEnd:
    return PASSED


async def test_a_grade_gives_the_place_free_and_a_failure_does_not(tmp_path: Path) -> None:
    scene, notes, masker = make_scene(tmp_path), HeardNotes(), make_masker({})

    failed = await reach_end(raise_it(ProviderFailed("overloaded", "529")), scene, notes, masker)
    assert failed == Failed(cause=Cause.PROVIDER, reason="overloaded", message="529")
    assert notes.heard == []
    assert await reach_end(pass_it(), scene, notes, masker) is PASSED
    assert notes.heard == ["gone"]


async def test_whatever_else_escapes_is_a_bug_of_ours(tmp_path: Path) -> None:
    end = await reach_end(raise_it(KeyError("x")), make_scene(tmp_path), HeardNotes(), make_masker({}))

    assert isinstance(end, Failed)
    assert (end.cause, end.reason) == (Cause.RUNNER, "bug")
    assert end.traceback is not None


@pytest.mark.parametrize(
    ("error", "passed_on"),
    [(StoreError("full"), StoreError), (OSError(errno.EMFILE, "too many open files"), OutOfFiles)],
)
async def test_what_concerns_the_whole_run_passes_through(
    error: Exception, passed_on: type[Exception], tmp_path: Path
) -> None:
    with pytest.raises(passed_on):
        await reach_end(raise_it(error), make_scene(tmp_path), HeardNotes(), make_masker({}))


async def test_what_is_cancelled_leaves_first_what_it_has_and_passes_through(tmp_path: Path) -> None:
    left: list[str] = []

    with pytest.raises(asyncio.CancelledError):
        await reach_end(
            raise_it(asyncio.CancelledError()),
            make_scene(tmp_path),
            HeardNotes(),
            make_masker({}),
            leave=lambda: left.append("transcript"),
        )

    assert left == ["transcript"]


def test_attempts_of_both_kinds_end_in_the_same_place() -> None:
    found: dict[str, set[str]] = {"reach_end": set(), "bug_failure": set()}
    for file in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Call):
                name = ast.unparse(node.func).rpartition(".")[2]
                found.get(name, set()).add(str(file.relative_to(SOURCE)))

    assert found["reach_end"] == {"trial/attempt.py", "solve/running/python_attempt.py"}
    assert found["bug_failure"] == {"trial/ending.py"}
