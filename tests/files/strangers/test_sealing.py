"""Digests of folders that agents left, and their way to the disk."""

import os
import socket
from pathlib import Path

import pytest

from labrunner.experiment.folders import digest_folder
from labrunner.files.strangers import sealing
from labrunner.files.strangers.sealing import digest_tree, settle_tree


def test_the_digest_is_that_of_an_authors_folder(tmp_path: Path) -> None:
    assert digest_tree(tmp_path) == digest_folder(tmp_path, everything=True)
    (tmp_path / "a" / "empty").mkdir(parents=True)
    (tmp_path / "a" / "file").write_text("x")
    (tmp_path / "program").write_text("x")
    (tmp_path / "program").chmod(0o755)
    (tmp_path / "link").symlink_to("nowhere")
    assert digest_tree(tmp_path) == digest_folder(tmp_path, everything=True)


def test_whatever_an_agent_can_make_has_a_digest_that_tells_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = {digest_tree(tmp_path)}
    (tmp_path / os.fsdecode(b"\xff")).write_text("x")
    seen.add(digest_tree(tmp_path))
    os.mkfifo(tmp_path / "pipe")
    seen.add(digest_tree(tmp_path))
    monkeypatch.chdir(tmp_path)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("socket")
    seen.add(digest_tree(tmp_path))
    assert None not in seen
    assert len(seen) == 4


def test_more_than_is_worth_reading_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    really_open = os.open

    def watch(path: str, *args: object, **options: object) -> int:
        opened.append(str(path))
        return really_open(path, *args, **options)  # type: ignore[arg-type]  # as they were given

    for number in range(6):
        (tmp_path / f"file-{number}").write_text("x")
    monkeypatch.setattr(os, "open", watch)  # the kernel keeps no list of what was opened

    assert digest_tree(tmp_path, most=5) is None
    assert not [path for path in opened if "file-" in path]


def test_a_folder_too_large_has_no_digest(tmp_path: Path) -> None:
    with (tmp_path / "sparse").open("wb") as file:
        file.truncate(sealing.MOST_BYTES + 1)
    assert digest_tree(tmp_path) is None


@pytest.mark.parametrize(("files", "is_whole"), [(sealing.SYNCED_ALONE, False), (100, True)])
def test_many_files_are_synced_with_their_file_system(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, files: int, is_whole: bool
) -> None:
    whole: list[Path] = []
    # What a whole file system synced can not be asked afterwards.
    monkeypatch.setattr(sealing, "sync_file_system", whole.append)
    for number in range(files):
        (tmp_path / str(number)).write_text("x")

    settle_tree(tmp_path)

    assert bool(whole) is is_whole
