"""What an agent left is synced, file by file or all at once."""

import os
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from labrunner.files.strangers.removal import remove_tree
from labrunner.files.strangers.settling import settle

NOBODY = 65534


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> set[int]:
    """Numbers of the files that were synced."""
    seen: set[int] = set()
    sync = os.fsync

    def watch(fd: int) -> None:
        seen.add(os.fstat(fd).st_ino)
        sync(fd)

    # The kernel can not be asked what was synced.
    monkeypatch.setattr(os, "fsync", watch)
    return seen


def numbers(*paths: Path) -> set[int]:
    return {path.stat().st_ino for path in paths}


def test_every_file_and_folder_is_synced(tmp_path: Path, synced: set[int]) -> None:
    deep = tmp_path / "workspace" / "a" / "b"
    deep.mkdir(parents=True)
    files = [deep / "answer", deep.parent / "notes", tmp_path / "out"]
    for path in files:
        path.write_text("x")
    settle([tmp_path])
    assert synced == numbers(tmp_path, tmp_path / "workspace", deep.parent, deep, *files)


def test_links_pipes_and_what_can_not_be_read_are_left_alone(tmp_path: Path, synced: set[int]) -> None:
    outside, folder = tmp_path / "outside", tmp_path / "workspace"
    outside.write_text("x")
    folder.mkdir()
    (folder / "link").symlink_to(outside)
    (folder / "loop").symlink_to(folder)
    (folder / "nowhere").symlink_to("/nowhere")
    os.mkfifo(folder / "pipe")
    settle([folder, tmp_path / "missing"])
    assert synced == numbers(folder)


def test_too_many_files_are_synced_with_their_file_system(tmp_path: Path, synced: set[int]) -> None:
    for number in range(5):
        (tmp_path / str(number)).write_text("x")
    settle([tmp_path], most=4)
    assert synced == set()
    settle([tmp_path], most=5)
    assert len(synced) == 6


def test_what_no_path_leads_to_is_synced_with_its_file_system(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole: list[Path] = []
    # The kernel can not be asked what was synced.
    monkeypatch.setattr("labrunner.files.strangers.settling.sync_file_system", whole.append)
    settle([tmp_path])
    assert whole == []
    here = os.open(tmp_path, os.O_RDONLY)
    for _ in range(25):
        os.mkdir("d" * 200, dir_fd=here)
        inner = os.open("d" * 200, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = inner
    os.close(here)

    settle([tmp_path])

    assert whole == [tmp_path]
    remove_tree(tmp_path)


@pytest.mark.root
@pytest.mark.parametrize("mode", [0, 0o444, 0o111])
def test_a_folder_that_is_closed_to_a_plain_user_is_synced_with_its_file_system(mode: int) -> None:
    with tempfile.TemporaryDirectory() as name:
        place, folder = Path(name), Path(name) / "workspace"
        folder.mkdir()
        (folder / "file").write_text("x")
        (folder / "file").chmod(0)
        for path in (place, folder, folder / "file"):
            os.chown(path, NOBODY, NOBODY)
        folder.chmod(mode)
        assert as_nobody(lambda: settle([folder])) == 0


def as_nobody(work: Callable[[], None]) -> int:
    """Do something as a plain user, in a process of its own; its exit status."""
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            os.setgroups([])
            os.setresgid(NOBODY, NOBODY, NOBODY)
            os.setresuid(NOBODY, NOBODY, NOBODY)
            work()
            status = 0
        except OSError as error:
            os.write(2, f"{error}\n".encode())
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
