"""Bits that flip in a finished run: told, nothing cut, and what is sound can be salvaged."""

import shutil
from pathlib import Path

import pytest

from labrunner.store.checking.verification import verify
from labrunner.store.layout import RunPaths
from labrunner.store.reading.run_state import iter_finished
from labrunner.store.reading.salvage import iter_sound
from tests.kit.cli.calling import Answer, lab
from tests.kit.crash.driver import Job, digest_slot
from tests.kit.crash.driving import Driver
from tests.kit.crash.scenario import RUN_ID, Shape, write_scenario
from tests.kit.runner.running import committed_bytes

pytestmark = pytest.mark.crash

SHAPE = Shape(tasks=5, variants=2, replications=2)
FILES = ["commits", "predictions", "scores", "trials"]


@pytest.fixture(scope="module")
def whole(driver: Driver, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Everything committed, and its owner killed before it could say so."""
    folder = tmp_path_factory.mktemp("whole")
    experiment = str(write_scenario(folder / "experiment", SHAPE))
    heard = driver.run(Job(experiment=experiment, runs_dir=str(folder / "runs"), die_at="status.written:2"))
    assert heard.code == -9
    assert len(heard.finished) == SHAPE.planned
    return folder / "runs"


def flip(path: Path, at: int) -> None:
    content = bytearray(path.read_bytes())
    content[at] ^= 0x04
    path.write_bytes(bytes(content))


def tree(root: Path) -> dict[str, bytes]:
    kept = (path for path in root.rglob("*") if path.is_file() and not path.name.startswith("buffer.sqlite"))
    return {str(path): path.read_bytes() for path in kept if path.name != "lock"}


@pytest.mark.parametrize("name", FILES)
def test_a_flipped_bit_is_told_changes_nothing_and_costs_one_trial(
    name: str, whole: Path, tmp_path: Path
) -> None:
    runs_dir = tmp_path / "runs"
    shutil.copytree(whole, runs_dir)
    paths = RunPaths(runs_dir / RUN_ID)
    sound = {rows.schedule_idx: digest_slot(rows) for rows in iter_finished(paths)}
    file: Path = getattr(paths, name)
    flip(file, file.stat().st_size // 3)
    before = tree(paths.root)

    def call(*words: str) -> Answer:
        return lab(*words, "--log-dir", str(runs_dir), cwd=tmp_path)

    continued, verified = call("continue", RUN_ID), call("verify", RUN_ID)
    assert (continued.code, verified.code) == (3, 3)
    assert "damaged" in continued.err or "not those that were committed" in continued.err, continued.err
    assert "Traceback" not in continued.err
    assert tree(paths.root) == before

    recovered = call("log", "recover", RUN_ID)
    assert recovered.code == 0, recovered.err
    assert "1 committed trial damaged, so left out" in recovered.out
    assert tree(paths.root) == before
    report = RunPaths(runs_dir / f"{RUN_ID}-recovered")
    assert verify(report).problems == ()
    rows = list(iter_finished(report))
    assert len(rows) == SHAPE.planned
    assert [row.trial.outcome for row in rows].count("cancelled") == 1
    salvaged = {rows.schedule_idx: digest_slot(rows) for rows in iter_sound(paths)}
    assert len(salvaged) == SHAPE.planned - 1
    assert salvaged.items() <= sound.items()


def flip_everywhere(whole: Path, folder: Path, name: str, step: int) -> None:
    runs_dir = folder / "runs"
    shutil.copytree(whole, runs_dir)
    paths = RunPaths(runs_dir / RUN_ID)
    sound = {rows.schedule_idx: digest_slot(rows) for rows in iter_finished(paths)}
    file: Path = getattr(paths, name)
    content = file.read_bytes()
    for at in range(0, len(content), step):
        flip(file, at)
        salvaged = {rows.schedule_idx: digest_slot(rows) for rows in iter_sound(paths)}
        assert salvaged.items() <= sound.items()
        assert len(salvaged) >= SHAPE.planned - 2  # a line end that flips joins two lines
        assert len(salvaged) < SHAPE.planned
        report = verify(paths)
        assert report.problems or report.notes  # the journal's very last byte may be taken for a torn line
        file.write_bytes(content)
    assert committed_bytes(paths.root) == committed_bytes(whole / RUN_ID)


@pytest.mark.parametrize("name", FILES)
def test_nothing_damaged_is_ever_salvaged(name: str, whole: Path, tmp_path: Path) -> None:
    flip_everywhere(whole, tmp_path, name, step=301)


@pytest.mark.torture
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", FILES)
def test_nothing_damaged_is_salvaged_whichever_byte_it_is(name: str, whole: Path, tmp_path: Path) -> None:
    flip_everywhere(whole, tmp_path, name, step=1)
