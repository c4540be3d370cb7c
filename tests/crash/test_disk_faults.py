"""Writes and syncs that fail: the run stops with exit code 3, says why, and goes on once the disk is well."""

import errno
import os
import random
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from labrunner.errors import StoreError
from labrunner.store.layout import RunPaths
from labrunner.store.writing.writer import RunWriter, open_writer
from tests.kit.cli.calling import AGENT_SHOUTS, lab, write_experiment
from tests.kit.crash.driver import Job
from tests.kit.crash.driving import Driver, open_driver
from tests.kit.crash.faults import Fault
from tests.kit.crash.invariants import check_complete, check_dead
from tests.kit.crash.scenario import RUN_ID, Shape, write_scenario
from tests.kit.store.sample import make_rows, make_run

pytestmark = pytest.mark.crash

SHAPE = Shape(tasks=5, variants=2, replications=2)
FAULTS = {
    "full while writing": Fault(call="write", number=1, errno=errno.ENOSPC, lasts=True),
    "broken while writing": Fault(call="write", number=1, errno=errno.EIO, lasts=False),
    "full while syncing": Fault(call="sync", number=1, errno=errno.ENOSPC, lasts=True),
    "broken while syncing": Fault(call="sync", number=1, errno=errno.EIO, lasts=False),
}
WORDS = ("the disk is full", "input/output error", "no space left on device")


@pytest.fixture(scope="module")
def experiment(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(write_scenario(tmp_path_factory.mktemp("faults"), SHAPE))


@pytest.fixture(scope="module")
def undisturbed(driver: Driver, experiment: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    runs_dir = tmp_path_factory.mktemp("undisturbed")
    assert driver.run(Job(experiment=experiment, runs_dir=str(runs_dir))).code == 0
    return runs_dir / RUN_ID


class Trouble:
    """Runs that meet a fault, and then go on without it."""

    def __init__(self, driver: Driver, experiment: str, undisturbed: Path, folder: Path) -> None:
        self._driver = driver
        self._experiment = experiment
        self._undisturbed = undisturbed
        self._folder = folder

    def meet(self, fault: Fault) -> bool:
        """Whether the run lasts long enough to meet the fault."""
        runs_dir = self._folder / "runs"
        paths, job = RunPaths(runs_dir / RUN_ID), Job(experiment=self._experiment, runs_dir=str(runs_dir))
        heard = self._driver.run(Job(experiment=self._experiment, runs_dir=str(runs_dir), fault=fault), None)
        if heard.faults:
            assert heard.code == 3, (fault, heard.told)
            assert any(word in heard.errors[0] for word in WORDS), heard.errors
            assert str(runs_dir) in heard.errors[0]
            check_dead(paths, heard)
            self._driver.run(job, heard)
        assert heard.code == 0, (fault, heard.told)
        check_dead(paths, heard)
        check_complete(paths, self._undisturbed)
        shutil.rmtree(runs_dir)
        return bool(heard.faults)


@pytest.fixture
def trouble(driver: Driver, experiment: str, undisturbed: Path, tmp_path: Path) -> Trouble:
    return Trouble(driver, experiment, undisturbed, tmp_path)


def at(kind: str, number: int) -> Fault:
    fault = FAULTS[kind]
    return Fault(call=fault.call, number=number, errno=fault.errno, lasts=fault.lasts)


@pytest.mark.parametrize("kind", FAULTS)
def test_a_failed_write_or_sync_ends_the_run_and_costs_nothing_that_was_acknowledged(
    trouble: Trouble, kind: str
) -> None:
    assert trouble.meet(at(kind, 1))
    for number in random.sample(range(2, 60), 3):
        trouble.meet(at(kind, number))


@pytest.mark.torture
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("kind", FAULTS)
def test_each_of_200_writes_and_syncs_fails(trouble: Trouble, kind: str) -> None:
    met = [trouble.meet(at(kind, number)) for number in range(1, 201)]
    assert met[0]


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own, small enough to be filled."""
    if os.geteuid() != 0:
        pytest.skip("only root can mount a file system")
    folder = tmp_path / "small"
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", folder], check=True)
    yield folder
    subprocess.run(["umount", "--lazy", folder], check=True)


FILLS_THE_DISK = (
    """
import os, pathlib
filler = pathlib.Path(os.environ["FILLER"])
if os.environ["AGENTLAB_TASK_ID"] == "t2" and not filler.exists():
    with filler.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(4096))
        except OSError:
            pass
    raise SystemExit(0)
"""
    + AGENT_SHOUTS
)


@pytest.mark.root
def test_a_run_on_a_full_disk_stops_and_goes_on_once_there_is_room(small_disk: Path, tmp_path: Path) -> None:
    folder, filler = write_experiment(tmp_path / "e", agent=FILLS_THE_DISK, tasks=6), small_disk / "filler"
    options = ("--fail-on-error=false", "--max-concurrency", "1", "--log-dir", str(small_disk / "runs"))

    full = lab("run", "--run-id", "r", *options, "--env", f"FILLER={filler}", cwd=folder)
    still_full = lab("continue", "r", "--log-dir", str(small_disk / "runs"), cwd=folder)
    filler.write_bytes(b"")
    going_on = lab("continue", "r", "--log-dir", str(small_disk / "runs"), cwd=folder)

    for stopped in (full, still_full):
        assert stopped.code == 3, stopped.err
        assert any(word in stopped.err for word in WORDS), stopped.err
        assert str(small_disk) in stopped.err
        assert "Traceback" not in stopped.err
        assert f"once the disk is well: lab continue {small_disk / 'runs' / 'r'}" in stopped.err
    assert going_on.code == 0, going_on.err
    totals = lab("show", "r", "--log-dir", str(small_disk / "runs"), "--json", cwd=folder).json()
    assert totals["summary"]["totals"]["trials"] == 6
    assert lab("verify", "r", "--log-dir", str(small_disk / "runs"), cwd=folder).code == 0


async def fill_and_finish(paths: RunPaths, disk: Path, slots: list[int]) -> list[str]:
    """Fill the disk under an owner, let slots finish one by one, and tell what became of each."""
    told: list[str] = []
    with suppress(StoreError):
        async with open_writer(paths) as writer:
            fill(disk / "filler")
            told = [await finish(writer, idx) for idx in slots]
    return told


async def finish(writer: RunWriter, idx: int) -> str:
    try:
        return f"{idx}: {await writer.finish(make_rows(idx), token=f'token-{idx}')}"
    except StoreError as error:
        return f"{idx}: {error}"


def fill(path: Path) -> None:
    with path.open("wb", buffering=0) as file, suppress(OSError):
        while True:
            file.write(bytes(512))


@pytest.mark.root
@pytest.mark.parametrize("first", [0, 3], ids=["committed", "buffered"])
async def test_what_is_in_hand_when_the_disk_is_full_is_kept(small_disk: Path, first: int) -> None:
    paths = make_run(small_disk, 8)

    told = await fill_and_finish(paths, small_disk, [first, first + 1])

    assert told[0] == f"{first}: True"
    assert "the disk is full" in told[1]
    (small_disk / "filler").unlink()
    async with open_writer(paths) as writer:
        assert writer.is_finished(first)
        assert not writer.is_finished(first + 1)
        assert await writer.finish(make_rows(first + 1), token="again")
    assert not paths.reserve.exists()


@pytest.fixture
def buffer_faults(tmp_path: Path) -> str:
    strace = shutil.which("strace")
    if strace is None:
        pytest.skip("strace is not installed: faults of the buffer's own writes can't be made")
    return strace


@pytest.mark.parametrize("call", ["pwrite64", "fdatasync"])
@pytest.mark.parametrize("reason", ["ENOSPC", "EIO"])
def test_a_buffer_whose_writes_fail_ends_the_run(
    buffer_faults: str,
    call: str,
    reason: str,
    experiment: str,
    undisturbed: Path,
    driver: Driver,
    tmp_path: Path,
) -> None:
    paths, job = RunPaths(tmp_path / RUN_ID), Job(experiment=experiment, runs_dir=str(tmp_path))
    log = str(paths.buffer) + "-wal"
    inject = f"inject={call}:error={reason}:when=3+"
    with open_driver(buffer_faults, "-f", "-qq", "-o", "/dev/null", "-P", log, "-e", inject) as troubled:
        heard = troubled.run(job)
    assert heard.code == 3, heard.errors
    assert "buffer.sqlite" in heard.errors[0]
    check_dead(paths, heard)
    assert driver.run(job, heard).code == 0
    check_dead(paths, heard)
    check_complete(paths, undisturbed)
