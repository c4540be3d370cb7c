import os
import shutil
import tarfile
from pathlib import Path

import pytest

from labrunner.errors import InputError
from labrunner.experiment.resolved import Experiment
from labrunner.experiment.resolving.load import load
from labrunner.runner.upkeep.footprint import BLOCK, RECORDED, estimate_footprint

HEAD = "schema: 1\nname: sizes\nagent: {command: x}\ngrader: {command: x}\n"


def write(folder: Path, tasks: str, more: str = "") -> Experiment:
    """Two variants, three replications."""
    (folder / "experiment.yaml").write_text(
        f"{HEAD}variants: [{{id: a}}, {{id: b}}]\nreplications: 3\ntasks:\n{tasks}{more}"
    )
    return load(folder / "experiment.yaml")


def fill(folder: Path) -> None:
    (folder / "data").mkdir(parents=True)
    (folder / "data" / "large").write_bytes(b"x" * (3 * BLOCK + 1))
    (folder / "small").write_bytes(b"x")


def test_what_a_run_takes_is_told_from_its_workspaces_limits_and_trials(tmp_path: Path) -> None:
    fill(tmp_path / "given")
    tasks = "  - {id: full, input: 1, workspace: given}\n  - {id: bare, input: 1, files: {a.txt: hello}}\n"
    experiment = write(tmp_path, tasks, "sandbox: {kind: process, disk_mb: 100}\n")
    full = 6 * BLOCK  # four blocks, one, and one for the folder

    found = estimate_footprint(experiment, concurrency=8)

    assert found.records == 12 * RECORDED
    assert found.workspaces == 6 * (full + BLOCK)
    assert found.at_once == 6 * full + 2 * BLOCK
    assert found.limit == 8 * 100 * 2**20


def test_a_task_s_own_limit_counts_and_no_more_run_than_there_are(tmp_path: Path) -> None:
    tasks = "  - {id: t, input: 1, resources: {disk_mb: 700}}\n"
    found = estimate_footprint(write(tmp_path, tasks, "sandbox: {kind: process}\n"), concurrency=32)
    assert found.limit == 6 * 700 * 2**20


@pytest.mark.parametrize("kind", ["zip", "tar", "gztar"])
def test_archives_count_as_what_they_hold(tmp_path: Path, kind: str) -> None:
    fill(tmp_path / "given")
    archive = Path(shutil.make_archive(str(tmp_path / "packed"), kind, tmp_path / "given"))
    experiment = write(tmp_path, f"  - {{id: t, input: 1, workspace: {archive.name}}}\n")
    assert estimate_footprint(experiment, concurrency=1).at_once == 5 * BLOCK


def test_an_archive_that_was_cut_off_is_named(tmp_path: Path) -> None:
    (tmp_path / "data").write_bytes(os.urandom(200_000))
    with tarfile.open(tmp_path / "cut.tar.gz", "w:gz") as archive:
        archive.add(tmp_path / "data")
    os.truncate(tmp_path / "cut.tar.gz", 100_000)
    experiment = write(tmp_path, "  - {id: t, input: 1, workspace: cut.tar.gz}\n")
    with pytest.raises(InputError, match=r"cut\.tar\.gz: is no archive that can be read"):
        estimate_footprint(experiment, concurrency=1)
