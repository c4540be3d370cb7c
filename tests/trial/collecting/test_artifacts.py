import os
import tarfile
from io import BytesIO
from pathlib import Path, PurePosixPath

from labrunner.trial.collecting import artifacts
from labrunner.trial.collecting.artifacts import Basket, copy_below, unpack_archive


def taken(folder: Path) -> dict[str, str]:
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {str(path.relative_to(folder)): path.read_text() for path in files}


def test_a_folder_is_copied_without_its_links_and_pipes(tmp_path: Path) -> None:
    source, host = tmp_path / "workspace", tmp_path / "host"
    (source / "report" / "sub").mkdir(parents=True)
    host.write_text("of the host")
    (source / "report" / "a").write_text("1")
    (source / "report" / "sub" / "b").write_text("2")
    (source / "report" / "link").symlink_to(host)
    (source / "report" / "up").symlink_to(tmp_path)
    os.mkfifo(source / "report" / "pipe")
    copy_below(source, ("report",), Basket(tmp_path / "artifacts"), PurePosixPath("report"))
    assert taken(tmp_path / "artifacts") == {"report/a": "1", "report/sub/b": "2"}


def test_no_step_of_a_path_may_be_a_link(tmp_path: Path) -> None:
    source = tmp_path / "workspace"
    source.mkdir()
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret").write_text("x")
    (source / "door").symlink_to(tmp_path / "outside")
    copy_below(source, ("door", "secret"), Basket(tmp_path / "artifacts"), PurePosixPath("secret"))
    assert taken(tmp_path / "artifacts") == {}


def test_what_is_over_the_caps_is_left_out(tmp_path: Path) -> None:
    source = tmp_path / "workspace"
    source.mkdir()
    for number in range(artifacts.MOST_FILES + 5):
        (source / f"{number:04}").write_text("x")
    copy_below(source, (), Basket(tmp_path / "artifacts"), PurePosixPath("all"))
    kept = sorted(taken(tmp_path / "artifacts"))
    assert len(kept) == artifacts.MOST_FILES
    assert kept[0] == "all/0000"


def test_names_in_an_archive_can_not_climb_out(tmp_path: Path) -> None:
    archive = tmp_path / "it.tar"
    with tarfile.open(archive, "w") as opened:
        for name in ("deep/../../../evil", "deep/good", "/absolute/x"):
            member = tarfile.TarInfo(name)
            member.size = 1
            opened.addfile(member, BytesIO(b"x"))
        link = tarfile.TarInfo("deep/link")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        opened.addfile(link)
    unpack_archive(archive, Basket(tmp_path / "artifacts"), PurePosixPath("deep"))
    assert set(taken(tmp_path / "artifacts")) == {"deep/evil", "deep/good", "deep/absolute/x"}
    assert not (tmp_path.parent / "evil").exists()


def test_a_name_that_is_no_text_is_spelled_out(tmp_path: Path) -> None:
    source = tmp_path / "workspace"
    source.mkdir()
    (source / os.fsdecode(b"caf\xe9")).write_text("1")
    copy_below(source, (), Basket(tmp_path / "artifacts"), PurePosixPath("all"))
    assert taken(tmp_path / "artifacts") == {"all/caf\\xe9": "1"}


def test_a_name_for_which_there_is_no_place_is_left_out(tmp_path: Path) -> None:
    archive = tmp_path / "it.tar"
    with tarfile.open(archive, "w") as opened:
        for name in ("deep/" + "/".join(["x" * 200] * 30), "deep/was-a-file/x", "deep/good"):
            member = tarfile.TarInfo(name)
            member.size = 1
            opened.addfile(member, BytesIO(b"x"))
    (tmp_path / "artifacts" / "deep").mkdir(parents=True)
    (tmp_path / "artifacts" / "deep" / "was-a-file").write_text("before")
    unpack_archive(archive, Basket(tmp_path / "artifacts"), PurePosixPath("deep"))
    assert taken(tmp_path / "artifacts") == {"deep/was-a-file": "before", "deep/good": "x"}


def test_a_file_that_was_cut_is_left_out(tmp_path: Path) -> None:
    archive = tmp_path / "it.tar"
    with tarfile.open(archive, "w") as opened:
        for name in ("deep/whole", "deep/cut"):
            member = tarfile.TarInfo(name)
            member.size = 4096
            opened.addfile(member, BytesIO(b"x" * 4096))
    with archive.open("r+b") as file:
        file.truncate(512 + 4096 + 512 + 1000)
    unpack_archive(archive, Basket(tmp_path / "artifacts"), PurePosixPath("deep"))
    assert taken(tmp_path / "artifacts") == {"deep/whole": "x" * 4096}
