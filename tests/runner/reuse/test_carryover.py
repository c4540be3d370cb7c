"""Files of earlier runs in a new one: linked, or copied whole to another file system."""

import errno
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from labrunner.errors import StoreError
from labrunner.runner.reuse.carryover import link_tree
from tests.kit.syncing import listen


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = tmp_path / "source"
    (folder / "1" / "out").mkdir(parents=True)
    (folder / "1" / "logs").mkdir()
    (folder / "1" / "out" / "score.json").write_text('{"score": 1}\n')
    (folder / "1" / "logs" / "agent.log").write_text("thinking\n" * 10_000)
    (folder / "1" / "out" / "link").symlink_to("score.json")
    (folder / "1" / "out" / "dangling").symlink_to("nowhere")
    return folder


@pytest.fixture
def elsewhere(tmp_path: Path) -> Iterator[Path]:
    """A folder on another file system."""
    shm = Path("/dev/shm")
    if not shm.is_dir() or shm.stat().st_dev == tmp_path.stat().st_dev:
        pytest.skip("/dev/shm is not another file system here")
    with tempfile.TemporaryDirectory(dir=shm) as folder:
        yield Path(folder)


def tree(folder: Path) -> dict[str, bytes | str]:
    return {
        str(path.relative_to(folder)): str(path.readlink()) if path.is_symlink() else path.read_bytes()
        for path in folder.rglob("*")
        if path.is_symlink() or path.is_file()
    }


def test_files_are_linked_where_they_can_be(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced = listen(monkeypatch)
    link_tree(source, tmp_path / "target")
    assert tree(tmp_path / "target") == tree(source)
    assert (tmp_path / "target/1/out/score.json").samefile(source / "1/out/score.json")
    assert synced == {str(tmp_path / "target" / name) for name in ("", "1", "1/out", "1/logs")}


def test_files_are_copied_to_another_file_system(source: Path, elsewhere: Path) -> None:
    link_tree(source, elsewhere / "target")
    link_tree(source, elsewhere / "target")
    assert tree(elsewhere / "target") == tree(source)


def test_a_copy_that_was_cut_short_is_made_again(
    source: Path, elsewhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    really_write = os.pwrite

    def cut_short(fd: int, data: bytes, at: int) -> int:
        really_write(fd, data[:5], at)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(os, "pwrite", cut_short)
        with pytest.raises(KeyboardInterrupt):
            link_tree(source / "1" / "logs", elsewhere / "target")
    link_tree(source / "1" / "logs", elsewhere / "target")
    assert tree(elsewhere / "target") == tree(source / "1" / "logs")


def test_a_disk_that_gives_out_is_told_with_the_place(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*args: object, **options: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    # A file system without links, whose disk is full.
    monkeypatch.setattr(os, "link", refuse)
    monkeypatch.setattr(os, "pwrite", refuse)
    with pytest.raises(StoreError, match=r"taking over files into .*target: the disk is full"):
        link_tree(source, tmp_path / "target")
