"""What a keeper does before and after its command: folders, streams and the last look at the disk."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from labrunner.errors import SandboxFailed, StoreError
from labrunner.sandbox.registry import make
from tests.kit.sandbox.place import Place, make_place, sh


@pytest.fixture
def crowded(tmp_path: Path, need_root: None) -> Iterator[Place]:
    """An attempt on a file system that takes no further file."""
    folder = tmp_path / "crowded"
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "nr_inodes=32", "tmpfs", folder], check=True)
    try:
        place = make_place(make("process"), folder / "attempt")
        with suppress(OSError):
            for number in range(32):
                (folder / str(number)).mkdir()
        yield place
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)


async def test_a_disk_that_is_full_before_the_command_is_no_fault_of_the_attempt(crowded: Place) -> None:
    with pytest.raises(StoreError, match="starting the agent: making its folders: no space left on device"):
        await crowded.run(sh("true"))


async def test_a_stream_that_can_not_be_opened_is_named(place: Place) -> None:
    place.folders.logs.rmdir()
    with pytest.raises(
        SandboxFailed, match=r"starting the agent: opening its streams: .*No such file"
    ) as told:
        await place.run(sh("true"))
    assert told.value.reason == "launch"


async def test_a_log_is_never_written_through_a_link(place: Place, tmp_path: Path) -> None:
    (place.folders.logs / "agent.stdout").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(SandboxFailed, match="opening its streams"):
        await place.run(sh("echo leaked"))
    assert not (tmp_path / "elsewhere").exists()


async def test_every_phase_has_a_home_of_its_own(place: Place) -> None:
    async with place.open() as sandbox:
        await sandbox.run_agent(None, sh("echo planted > $HOME/.profile; echo planted > $TMPDIR/x"))
        for _ in range(2):
            grader = sh("ls -A $HOME $TMPDIR; stat -c %a $HOME $TMPDIR", name="grader")
            assert (await sandbox.run_grader(grader)).exit_status == 0
    assert "planted" not in place.stdout("grader")
    assert ".profile" not in place.stdout("grader")
    assert place.stdout("grader").count("700\n") == 4
    assert len(os.listdir(place.folders.scratch)) == 6


async def test_what_an_agent_left_at_its_very_end_counts_against_its_disk(place: Place) -> None:
    end = await place.run(sh("head -c 3000000 /dev/zero > big"), disk_mb=1)
    assert end.over_disk


async def test_many_small_files_count_as_well(place: Place) -> None:
    end = await place.run(sh("i=0; while [ $i -lt 400 ]; do echo x > f$i; i=$((i+1)); done"), disk_mb=1)
    assert end.over_disk
