"""Damage is told: views are rebuilt, and neither lines, marks nor buffered results vanish unsaid."""

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from labrunner.store.layout import RunPaths
from tests.kit.cli.calling import LAB, environment
from tests.kit.crash.damaging import CRASHED, FINISHED, Lab, change, tree

pytestmark = pytest.mark.crash

STATUS: dict[str, Callable[[RunPaths], object]] = {
    "cut": lambda paths: paths.status.write_bytes(paths.status.read_bytes()[:100]),
    "emptied": lambda paths: paths.status.write_bytes(b""),
    "removed": lambda paths: paths.status.unlink(),
    "a bad date": lambda paths: change(paths.status, b'"updated_at":"2', b'"updated_at":"x'),
    "counts edited": lambda paths: change(paths.status, b'"committed":3', b'"committed":4'),
    "another run's": lambda paths: shutil.copy(paths.root.parent / FINISHED / "status.json", paths.status),
}


@pytest.mark.parametrize("how", STATUS)
def test_a_damaged_status_blocks_nothing_and_is_written_anew(crashed: RunPaths, lab: Lab, how: str) -> None:
    STATUS[how](crashed)

    shown = lab("show", CRASHED)
    verified = lab("verify", CRASHED)
    continued = lab("continue", CRASHED)

    assert (shown.code, continued.code) == (0, 0), (shown, continued)
    assert "crashed" in shown.out
    if how != "removed":  # a run that dies in its first moment has none
        assert verified.code == 3
        assert "wrong: status.json: " in verified.out
    assert "success: all 6 trials finished" in continued.out
    assert lab("verify", CRASHED).code == 0


def edit_last_line(path: Path) -> None:
    content = path.read_bytes()
    path.write_bytes(content[:-40] + bytes([content[-40] ^ 1]) + content[-39:])


SHORTER: dict[str, Callable[[Path], object]] = {
    "shortened": lambda path: path.write_bytes(path.read_bytes().split(b"\n")[0] + b"\n"),
    "emptied": lambda path: path.write_bytes(b""),
    "its last line edited": edit_last_line,
    "its last line end gone bad": lambda path: path.write_bytes(path.read_bytes()[:-1] + b"\x0e"),
    "another run's": lambda path: shutil.copy(path.parent.parent / "another" / path.name, path),
    "other line ends": lambda path: path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n")),
}


@pytest.mark.parametrize("how", SHORTER)
@pytest.mark.parametrize("name", [CRASHED, FINISHED])
def test_a_journal_that_lost_lines_is_never_taken_for_a_torn_one(
    runs_dir: Path, lab: Lab, name: str, how: str
) -> None:
    paths = RunPaths(runs_dir / name)
    SHORTER[how](paths.commits)
    before = tree(paths.root)

    for words in (("show", name), ("show", name, "--require-coverage", "0.1"), ("compare", name)):
        answer = lab(*words)
        assert (answer.code, "commits.jsonl" in answer.err) == (3, True), (words, answer)
    verified = lab("verify", name)
    assert (verified.code, "wrong: commits.jsonl" in verified.out) == (3, True), verified
    if name == CRASHED:
        refused = lab("continue", name)
        assert (refused.code, "commits.jsonl" in refused.err) == (3, True), refused
    assert tree(paths.root) == before


def test_an_edited_run_record_is_named_and_nothing_goes_on_from_it(crashed: RunPaths, lab: Lab) -> None:
    change(crashed.run, b'"timeout_s":60', b'"timeout_s":61')

    assert "wrong: run.json: not as it was written" in lab("verify", CRASHED).out
    for words in (("continue", CRASHED), ("show", CRASHED), ("retry", CRASHED), ("log", "recover", CRASHED)):
        answer = lab(*words)
        assert (answer.code, "run.json" in answer.err) == (3, True), (words, answer)


MARKS: dict[str, Callable[[RunPaths], object]] = {
    "malformed": lambda paths: paths.invalidations.write_bytes(b"nonsense\n"),
    "cut": lambda paths: paths.invalidations.write_bytes(
        paths.invalidations.read_bytes().split(b"\n")[0] + b"\n"
    ),
    "edited": lambda paths: change(paths.invalidations, b'"reason":"wrong', b'"reason":"wrung'),
    "emptied": lambda paths: paths.invalidations.write_bytes(b""),
    "removed": lambda paths: paths.invalidations.unlink(),
    "count edited": lambda paths: change(paths.marks, b'"count":2', b'"count":1'),
}


@pytest.mark.parametrize("how", MARKS)
def test_marks_do_not_vanish_and_there_is_a_way_out(finished: RunPaths, lab: Lab, how: str) -> None:
    for task in ("t1", "t2"):
        condition = f"task_id = '{task}'"
        assert lab("invalidate", FINISHED, "--where", condition, "--reason", "wrong answer").code == 0
    assert lab("verify", FINISHED).code == 0
    MARKS[how](finished)

    verified = lab("verify", FINISHED)
    assert (verified.code, "wrong: facts/invalidations.jsonl: " in verified.out) == (3, True), verified
    for words in (("compare", FINISHED, "another"), ("show", FINISHED)):
        shown = lab(*words)
        assert (shown.code, "--mend" in shown.err) == (3, True), (words, shown)

    mended = lab("invalidate", FINISHED, "--mend")
    assert mended.code == 0, mended
    kept = {"malformed": 0, "cut": 1, "edited": 2, "emptied": 0, "removed": 0, "count edited": 2}[how]
    assert f"{kept} mark" in mended.out
    assert ("mark those trials again" in mended.out) == (kept < 2)
    assert lab("verify", FINISHED).code == 0
    marked = lab("query", FINISHED, "select count(*) as n from trials where invalidated", "--json").json()
    assert marked == [{"n": kept}]


@pytest.mark.parametrize("point", ["marks.written:1", "marks.renamed:1", "marks.done:1"])
def test_a_marking_that_is_killed_leaves_marks_that_hold(finished: RunPaths, lab: Lab, point: str) -> None:
    words = ["--where", "task_id = 't1'", "--reason", "wrong", "--log-dir", str(finished.root.parent)]
    ended = subprocess.run(
        [LAB, "invalidate", FINISHED, *words],
        env=environment(LAB_DIE_AT=point),
        check=False,
        capture_output=True,
    )
    assert ended.returncode == -9
    assert lab("verify", FINISHED).code == 0
    assert lab("invalidate", FINISHED, "--where", "task_id = 't2'", "--reason", "wrong").code == 0
    asked = "select count(*) as n from trials where invalidated"
    assert lab("query", FINISHED, asked, "--json").json() == [{"n": 2}]


def cut_log(paths: RunPaths) -> None:
    log = paths.buffer.with_name("buffer.sqlite-wal")
    log.write_bytes(log.read_bytes()[:32])


def flip_log(paths: RunPaths) -> None:
    log = paths.buffer.with_name("buffer.sqlite-wal")
    content = bytearray(log.read_bytes())
    content[200] ^= 0x10
    log.write_bytes(bytes(content))


def remove_buffer(paths: RunPaths) -> None:
    for path in paths.root.glob("buffer.sqlite*"):
        path.unlink()


def garble_buffer(paths: RunPaths) -> None:
    remove_buffer(paths)
    paths.buffer.write_bytes(b"x" * 5000)


LOSSES: dict[str, Callable[[RunPaths], object]] = {
    "its log cut": cut_log,
    "its log flipped": flip_log,
    "gone": remove_buffer,
    "garbage": garble_buffer,
}


@pytest.mark.parametrize("how", LOSSES)
def test_what_is_lost_with_the_buffer_is_told_by_name(crashed: RunPaths, lab: Lab, how: str) -> None:
    known = [json.loads(line)["trial_id"] for line in crashed.buffered.read_bytes().splitlines()]
    names = [name for name in known if name.startswith(("t4.", "t5."))]
    assert len(names) == 2
    for part in crashed.root.glob("buffer.sqlite-shm"):
        part.unlink()
    LOSSES[how](crashed)

    shown, verified = lab("show", CRASHED), lab("verify", CRASHED)
    recovered = lab("log", "recover", CRASHED)
    planned = lab("retry", CRASHED, "--dry-run")
    continued = lab("continue", CRASHED)

    assert "nothing of it is lost" not in shown.out
    assert (verified.code, "wrong: buffer.sqlite: " in verified.out) == (3, True), verified
    assert (shown.code, recovered.code, continued.code) == (0, 0, 0), (shown, recovered, continued)
    for told in (shown.out, verified.out, recovered.out, planned.out + planned.err, continued.err):
        flat = " ".join(told.split())
        assert "2 finished results that were not committed are lost" in flat, told
        assert all(name in flat for name in names), told
    assert "success: all 6 trials finished" in continued.out
    assert lab("verify", CRASHED).code == 0
    (note,) = crashed.root.glob("crash-*.json")
    assert "are lost" in json.loads(note.read_bytes())["lost"]


def test_a_recovered_run_is_not_listed_again_and_a_success_is_not_recovered(
    crashed: RunPaths, finished: RunPaths, lab: Lab
) -> None:
    listed = lab("log", "recover", "--list", "--json").json()
    assert {entry["run_id"] for entry in listed} == {CRASHED, "another-crashed"}
    assert lab("log", "recover", CRASHED).code == 0
    listed = lab("log", "recover", "--list", "--json").json()
    assert [entry["run_id"] for entry in listed] == ["another-crashed"]

    refused = lab("log", "recover", FINISHED)
    assert (refused.code, "nothing to recover" in refused.err) == (2, True), refused
    assert not finished.root.with_name(f"{FINISHED}-recovered").exists()
    finished.status.unlink()
    assert lab("log", "recover", FINISHED).code == 0


def test_files_that_are_no_runs_are_noted_not_called_damage(finished: RunPaths, lab: Lab) -> None:
    (finished.root / "notes.txt").touch()
    (finished.trial_folders / "stranger").mkdir()

    verified = lab("verify", FINISHED)

    assert verified.code == 0
    assert "note: not of this run, and not looked at: notes.txt, trials/stranger" in verified.out
