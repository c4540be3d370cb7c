import os
import shutil
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from labrunner.errors import InputError
from labrunner.experiment.folders import Contents, digest_file, digest_folder

# Computed by another program from the description of the digest.
GOLDEN = "sha256:ebec0ccb1032a9c1c6a0047ca570be875f3db0272c2b7a3f57b0a8dbb3a7b1e5"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    root = tmp_path / "folder"
    (root / "sub" / "empty").mkdir(parents=True)
    (root / "run.sh").write_text("#!/bin/sh\n")
    (root / "run.sh").chmod(0o755)
    (root / "sub" / "ä.txt").write_text("text")
    (root / "link").symlink_to("sub/ä.txt")
    return root


def test_the_digest_of_a_folder_is_the_same_everywhere(folder: Path) -> None:
    assert digest_folder(folder) == GOLDEN


def test_a_copy_elsewhere_with_other_times_and_modes_has_the_same_digest(
    folder: Path, tmp_path: Path
) -> None:
    copy = tmp_path / "elsewhere" / "copy"
    shutil.copytree(folder, copy, symlinks=True)
    os.utime(copy / "run.sh", (1, 1))
    (copy / "sub" / "ä.txt").chmod(0o600)
    (copy / "sub").chmod(0o700)
    assert digest_folder(copy) == digest_folder(folder)


def _link(path: Path, target: str) -> Path:
    path.symlink_to(target)
    return path


def test_whatever_an_agent_could_notice_changes_the_digest(folder: Path) -> None:
    digests = [digest_folder(folder)]
    changes: list[Callable[[], object]] = [
        lambda: (folder / "sub" / "ä.txt").write_text("other"),
        lambda: (folder / "run.sh").chmod(0o644),
        lambda: (folder / "sub" / "ä.txt").rename(folder / "sub" / "b.txt"),
        lambda: os.replace(_link(folder.parent / "another", "run.sh"), folder / "link"),
        lambda: (folder / "sub" / "empty").rmdir(),
        lambda: (folder / "new").write_text(""),
        lambda: (folder / "more").mkdir(),
    ]
    for change in changes:
        change()
        digests.append(digest_folder(folder))
    assert len(set(digests)) == len(changes) + 1


def test_a_links_target_is_not_followed(folder: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.write_text("one")
    (folder / "out").symlink_to("../outside")
    before = digest_folder(folder)
    outside.write_text("two")
    assert digest_folder(folder) == before


def test_what_tools_leave_behind_counts_in_workspaces_only(folder: Path) -> None:
    tools, everything = digest_folder(folder), digest_folder(folder, everything=True)
    for name in ("__pycache__/x", ".git/HEAD", ".lab/runs", "sub/__pycache__/y"):
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("left")
    (folder / "a.pyc").write_text("left")
    assert digest_folder(folder) == tools
    assert digest_folder(folder, everything=True) != everything


def test_a_fifo_is_refused_instead_of_read_for_ever(folder: Path) -> None:
    os.mkfifo(folder / "pipe")
    with pytest.raises(InputError, match="is no plain file, folder or link"):
        digest_folder(folder)


def test_a_name_that_is_no_utf8_is_refused(folder: Path) -> None:
    Path(os.fsdecode(os.fsencode(folder) + b"/\xff")).write_text("x")
    with pytest.raises(InputError, match="not UTF-8; rename it"):
        digest_folder(folder)


def pack(archive: Path, name: str) -> None:
    with tarfile.open(archive, "w:gz") as packed:
        packed.addfile(tarfile.TarInfo(name))


@pytest.mark.parametrize("name", ["repo.zip", "repo.tar", "repo.tar.gz", "repo.tgz"])
def test_a_file_that_only_has_an_archives_name_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"junk")
    with pytest.raises(InputError, match="is no archive that can be read; pack it again"):
        Contents().workspace(tmp_path / name)


def test_an_archive_counts_by_its_bytes_and_each_path_is_read_once(tmp_path: Path) -> None:
    archive = tmp_path / "repo.tar.gz"
    pack(archive, "one")
    contents = Contents()
    first = contents.workspace(archive)
    assert first.digest == digest_file(archive)
    pack(archive, "two")
    assert contents.workspace(archive) == first
    assert Contents().workspace(archive) != first


def test_a_source_may_be_a_file_or_a_folder(folder: Path) -> None:
    contents = Contents()
    script = contents.source(folder / "run.sh")
    (folder / "run.sh").chmod(0o644)
    assert Contents().source(folder / "run.sh").digest != script.digest
    assert contents.source(folder / "sub").digest == digest_folder(folder / "sub", everything=True)
