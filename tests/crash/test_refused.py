"""What is damaged is refused before anything is spent, by its name; and it is never taken over."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from labrunner.errors import DamagedRun
from labrunner.store.layout import RunPaths
from labrunner.store.writing.writer import open_writer
from tests.kit.crash.damaging import CRASHED, FINISHED, Lab, Masters, change, tree
from tests.kit.made_runs import Told, make_grid, write_run

pytestmark = pytest.mark.crash


def halve(path: Path) -> None:
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[: len(lines) // 2]))


def double(path: Path) -> None:
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*lines, lines[-1]]))


TASKS: dict[str, Callable[[Path], object]] = {
    "cut": halve,
    "a line doubled": double,
    "a target changed": lambda path: change(path, b"WORD 4", b"WORD 5"),
    "garbled": lambda path: path.write_bytes(b"\x00" * 40),
    "emptied": lambda path: path.write_bytes(b""),
    "removed": Path.unlink,
}


@pytest.mark.parametrize("how", TASKS)
@pytest.mark.parametrize("name", ["tasks", "schedule"])
def test_continue_refuses_a_run_whose_question_is_damaged(
    crashed: RunPaths, lab: Lab, name: str, how: str
) -> None:
    path: Path = getattr(crashed, name)
    if (name, how) == ("schedule", "a target changed"):
        change(path, b"t4", b"t5")
    else:
        TASKS[how](path)
    before = tree(crashed.root)

    answer = lab("continue", CRASHED)

    assert answer.code == 3, answer.err
    assert path.name in answer.err
    assert tree(crashed.root) == before


@pytest.mark.parametrize("how", TASKS)
def test_no_command_breaks_on_damaged_tasks(crashed: RunPaths, lab: Lab, how: str) -> None:
    TASKS[how](crashed.tasks)
    for words in (
        ("show", CRASHED),
        ("compare", CRASHED, FINISHED),
        ("export", CRASHED, "--to", "junit"),
        ("log", "recover", CRASHED),
        ("query", CRASHED, "select count(*) from trials"),
    ):
        answer = lab(*words)
        assert answer.code == 3, (words, answer)
        assert "tasks.jsonl" in answer.err


def test_continue_all_goes_on_with_the_other_runs(crashed: RunPaths, lab: Lab) -> None:
    crashed.tasks.unlink()

    answer = lab("continue", "--all")

    assert answer.code == 3
    assert "tasks.jsonl" in answer.err
    assert "success: all 6 trials finished" in lab("show", "another-crashed").out


def test_retry_takes_no_row_over_that_is_not_as_it_was_committed(finished: RunPaths, lab: Lab) -> None:
    change(finished.trials, b'"verdict":"fail"', b'"verdict":"pass"')

    answer = lab("retry", FINISHED, "--run-id", "new")

    assert answer.code == 3, answer
    assert "trials.jsonl" in answer.err
    assert "lab log recover" in answer.err
    assert not (finished.root.parent / "new").exists()


def test_reuse_takes_nothing_from_a_run_with_a_damaged_row(
    finished: RunPaths, masters: Masters, lab: Lab, tmp_path: Path
) -> None:
    change(finished.scores, b'"verdict":"fail"', b'"verdict":"pass"')
    alone = tmp_path / "alone"
    alone.mkdir()
    finished.root.rename(alone / FINISHED)
    home = masters.folder / "home"

    answer = lab("run", str(home), "--run-id", "new", "--reuse", str(alone))

    assert answer.code == 0, answer.err
    assert "not those that were committed" in answer.err
    asked = "select count(*) as n from trials where verdict = 'fail'"
    assert lab("query", "new", asked, "--json").json() == [{"n": 1}]


def test_a_row_long_before_the_end_is_checked_before_anything_is_spent(tmp_path: Path) -> None:
    paths = write_run(
        tmp_path, make_grid(tasks=200), lambda slot: None if slot.schedule_idx > 380 else Told()
    )
    change(paths.trials, b'"schedule_idx":3,', b'"schedule_idx":7,')
    assert_refused(paths, "the rows of slot 3 ")


TIMINGS: dict[str, Callable[[RunPaths], object]] = {
    "an edited row": lambda paths: change(paths.timings, b'"agent":1.0', b'"agent":9.0'),
    "a row of another slot": lambda paths: change(paths.timings, b'"schedule_idx":3,', b'"schedule_idx":4,'),
    "a garbled row": lambda paths: change(paths.timings, b'{"attempts', b"[[[[[[[[[["),
    "a row without its seal": lambda paths: change(paths.timings, b',"seal":', b',"soul":'),
    "a row doubled": lambda paths: paths.timings.write_bytes(
        paths.timings.read_bytes().split(b"\n")[0] + b"\n" + paths.timings.read_bytes()
    ),
}


@pytest.mark.parametrize("how", TIMINGS)
def test_a_damaged_timing_is_refused_before_anything_is_spent(tmp_path: Path, how: str) -> None:
    paths = write_run(tmp_path, make_grid(tasks=4), lambda slot: None if slot.schedule_idx > 6 else Told())
    TIMINGS[how](paths)
    assert_refused(paths, "timings.jsonl: line ")


def assert_refused(paths: RunPaths, told: str) -> None:
    async def open_it() -> None:
        async with open_writer(paths):
            pass

    before = tree(paths.root)
    with pytest.raises(DamagedRun, match="nothing was changed") as refused:
        asyncio.run(open_it())
    assert told in str(refused.value)
    assert tree(paths.root) == before
