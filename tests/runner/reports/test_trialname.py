"""Which trial a word means, in a real run."""

from pathlib import Path

from tests.kit.cli.calling import lab
from tests.kit.solve.authoring import write_task

NUMBERED = """
@task
def numbered():
    dataset = [Sample(input=str(n), target=str(n), id=n) for n in (3, 1, 2, 0)]
    return Task(dataset=dataset, solver=generate(), scorer=includes())
"""


def test_a_sample_id_goes_before_a_position_in_the_schedule_and_both_are_told(tmp_path: Path) -> None:
    file = write_task(tmp_path, NUMBERED)
    ran = lab("run", file, "--model", "mock/echo", "--run-id", "x", cwd=tmp_path)
    assert ran.code == 0, ran.err

    both = lab("show", "x", "3", "--json", cwd=tmp_path)
    same = lab("show", "x", "1", "--json", cwd=tmp_path)

    assert both.json()["trial"]["ids"]["task_id"] == "3"
    assert "note: 3 is a task's id; the trial at position 3 of the schedule is 0.mock-echo.0-" in both.err
    assert same.json()["trial"]["ids"]["task_id"] == "1"
    assert same.err == ""


def test_the_id_of_a_task_with_several_trials_is_too_little(tmp_path: Path) -> None:
    file = write_task(tmp_path, NUMBERED)
    words = ("run", file, "--model", "mock/echo", "--run-id", "x", "--epochs", "2")
    assert lab(*words, cwd=tmp_path).code == 0

    several = lab("show", "x", "2", cwd=tmp_path)
    slot = lab("show", "x", "7", "--json", cwd=tmp_path)

    assert several.code == 2
    assert "2 trials have '2' in their name: 2.mock-echo.0-" in several.err
    assert slot.json()["schedule_idx"] == 7
