"""Every file of a finished, a crashed and a live run, damaged in every way, and every command asked about it.

Rules: never a traceback; the exit code that the file's rule asks for, with its name; what only reads changes
nothing, and `continue` either refuses and changes nothing or brings the run to a sound end.
"""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from labrunner.store.checking.verification import verify
from labrunner.store.layout import RunPaths
from labrunner.store.rows.lock import acquire
from tests.kit.crash.damaging import CRASHED, FINISHED, Lab, Masters, tree

pytestmark = pytest.mark.crash

OTHERS = {FINISHED: "another", CRASHED: "another-crashed"}


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    if content:
        content[len(content) // 2] ^= 0x01
    path.write_bytes(bytes(content))


def halve(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def swap(path: Path) -> None:
    runs, name = find_run(path)
    other = runs / OTHERS[name] / path.relative_to(runs / name)
    shutil.copyfile(other, path)


def find_run(path: Path) -> tuple[Path, str]:
    root = next(each for each in path.parents if each.name in OTHERS)
    return root.parent, root.name


WAYS: dict[str, Callable[[Path], object]] = {
    "cut": halve,
    "edited": flip,
    "emptied": lambda path: path.write_bytes(b""),
    "removed": Path.unlink,
    "swapped": swap,
}

READING = ("show", "verify", "retry", "recover", "query", "export", "compare")


def ask(lab: Lab, command: str, name: str, place: Path) -> tuple[int, str]:
    words: dict[str, tuple[str, ...]] = {
        "show": ("show", name),
        "verify": ("verify", name),
        "retry": ("retry", name, "--dry-run"),
        "recover": ("log", "recover", name, "--output", str(place / "report")),
        "query": ("query", name, "select count(*) from trials join timings using (trial_id)"),
        "export": ("export", name, "--to", "junit", "--output", str(place / "out.xml")),
        "compare": ("compare", name, OTHERS[name]),
        "continue": ("continue", name),
    }
    answer = lab(*words[command])
    shutil.rmtree(place / "report", ignore_errors=True)
    return answer.code, answer.out + answer.err


ROWS = ("benchmark/predictions.jsonl", "benchmark/scores.jsonl", "facts/trials.jsonl")
REFUSED: dict[str, tuple[str, ...]] = {
    "run.json": ("show", "verify", "retry", "recover", "query", "export", "compare", "continue"),
    "lock": ("show", "verify", "retry", "recover", "query", "export", "continue"),
    "commits.jsonl": ("show", "verify", "retry", "export", "compare", "continue"),
    "tasks.jsonl": ("verify", "recover", "query", "export", "compare", "continue"),
    "schedule.jsonl": ("verify", "continue"),
    "facts/timings.jsonl": ("verify", "retry", "export", "compare", "continue"),
    **dict.fromkeys(ROWS, ("verify", "retry", "export", "compare", "continue")),
    "status.json": ("verify",),
    "benchmark/summary.json": ("verify",),
    "buffered.jsonl": ("verify",),
    "buffer.sqlite": ("verify",),
    "buffer.sqlite-wal": ("verify",),
    "buffer.sqlite-shm": (),
}
"""Commands that must end with 3 and name the file; the others may do without it."""
NOT_TOLD: dict[str, frozenset[str]] = {
    "lock": frozenset({"cut", "edited", "emptied", "swapped"}),  # its text only informs people
    "status.json": frozenset({"removed"}),  # a note: a view
    "benchmark/summary.json": frozenset({"removed"}),  # a note: a view
    "buffered.jsonl": frozenset({"cut", "emptied", "removed"}),  # it may know of less than there was
    "buffer.sqlite": frozenset(WAYS),  # what is lost with it, if anything, is told: see test_told
    "buffer.sqlite-wal": frozenset(WAYS),
}
EXEMPT = {("run.json", "swapped", "recover")}
"""Another run's record over sound tasks: what is sound of this run is nothing, and the report says so."""
VIEWS = ("status.json", "benchmark/summary.json", "buffered.jsonl")


CASES = [(name, file) for name in OTHERS for file in REFUSED if name != FINISHED or "sqlite-" not in file]
"""A finished run has closed its buffer: there is no log beside it."""


@pytest.mark.timeout(120)
@pytest.mark.parametrize(("name", "file"), CASES)
def test_a_damaged_file_is_told_by_every_command_that_needs_it(
    name: str, file: str, masters: Masters, lab: Lab, runs_dir: Path, tmp_path: Path
) -> None:
    for way in damage_each(masters, runs_dir, name, file):
        untold = way in NOT_TOLD.get(file, ())
        before = tree(runs_dir / name)
        for command in READING:
            code, told = ask(lab, command, name, tmp_path)
            check(code, told, file, command, must=command in REFUSED[file] and not untold, way=way)
            assert tree(runs_dir / name) == before, (file, way, command)
        code, told = ask(lab, "continue", name, tmp_path)
        check(code, told, file, "continue", must="continue" in REFUSED[file] and not untold, way=way)
        if code == 3:
            assert tree(runs_dir / name) == before, (file, way)
        elif file in VIEWS or name == CRASHED:
            assert verify(RunPaths(runs_dir / name)).is_complete
            assert file == "buffered.jsonl" or not verify(RunPaths(runs_dir / name)).problems, (file, way)


def damage_each(masters: Masters, runs_dir: Path, name: str, file: str) -> Iterator[str]:
    """Damage a file in every way that changes it, each time in a fresh copy of the runs."""
    for way, damage in WAYS.items():
        shutil.rmtree(runs_dir)
        masters.copy_to(runs_dir.parent)
        path = runs_dir / name / file
        before = path.read_bytes()
        other = runs_dir / OTHERS[name] / file
        if way == "swapped" and not (other.exists() and other.stat().st_size):  # that would be "emptied"
            continue
        damage(path)
        if not path.exists() or path.read_bytes() != before:
            yield way


def check(code: int, told: str, file: str, command: str, *, must: bool, way: str) -> None:
    case = (file, way, command)
    assert code in ({3} if must and case not in EXEMPT else {0, 2, 3}), (case, code, told)
    assert code != 2 or command == "recover", (case, told)  # a success that is sound: nothing to recover
    if code == 3:
        named = "commits.jsonl" if (file, way) == ("run.json", "swapped") else Path(file).name
        assert named.removesuffix("-wal") in told, (case, told)
    assert "Traceback" not in told, (case, told)


@pytest.mark.timeout(120)
@pytest.mark.parametrize("name", OTHERS)
def test_damaged_evidence_is_named_by_verify_and_stops_no_command(
    name: str, masters: Masters, lab: Lab, runs_dir: Path, tmp_path: Path
) -> None:
    trial = next((masters.folder / "runs" / name / "trials").glob("t1.*"))
    files = [path.relative_to(masters.folder / "runs" / name) for path in trial.rglob("*") if path.is_file()]
    assert len(files) > 5
    for file in files:
        for way in damage_each(masters, runs_dir, name, str(file)):
            code, told = ask(lab, "verify", name, tmp_path)
            if (part := file.parts[3]) in {"out", "logs", "workspace"}:
                assert (code, f"{trial.name}/1/{part}" in told) == (3, True), (file, way, told)
            else:
                assert code == 0, (file, way, told)
            assert lab("show", name, "t1").code == 0
            if way == "removed":
                assert ask(lab, "export", name, tmp_path)[0] == 0
                assert ask(lab, "continue", name, tmp_path)[0] == 0


@pytest.mark.parametrize("file", [file for file in REFUSED if file not in {"lock", "buffer.sqlite-shm"}])
def test_a_live_runs_damaged_file_breaks_no_reader_and_nobody_else_takes_it(
    file: str, masters: Masters, lab: Lab, runs_dir: Path, tmp_path: Path
) -> None:
    for way in damage_each(masters, runs_dir, CRASHED, file):
        with acquire(RunPaths(runs_dir / CRASHED)):
            before = tree(runs_dir / CRASHED)
            for command in (*READING, "continue"):
                code, told = ask(lab, command, CRASHED, tmp_path)
                allowed = {2, 3} if command in {"retry", "recover", "continue"} else {0, 3}
                assert code in allowed, (file, way, command, code, told)
            assert tree(runs_dir / CRASHED) == before, (file, way)
