"""Whatever paths a stranger names, nothing is put anywhere but below the folder that it belongs into."""

import io
import tarfile
import zipfile
from pathlib import Path

import pytest

from labrunner.files.strangers.placing import Misplaced, copy_over, find_place, unpack

DIR, REG, SYM, LNK = tarfile.DIRTYPE, tarfile.REGTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    folder = tmp_path / "outside"
    folder.mkdir()
    (folder / "mine").write_text("mine")
    return folder


@pytest.fixture
def inside(tmp_path: Path, outside: Path) -> Path:
    folder = tmp_path / "inside"
    (folder / "deep").mkdir(parents=True)
    (folder / "way").symlink_to(outside)
    (folder / "deep" / "file").symlink_to(outside / "mine")
    return folder


def pack(path: Path, *entries: tuple[str, bytes, str]) -> Path:
    with tarfile.open(path, "w") as archive:
        for name, kind, target in entries:
            member = tarfile.TarInfo(name)
            member.type, member.linkname, member.mode = kind, target, 0o755
            member.size = 7 if kind == REG else 0
            archive.addfile(member, io.BytesIO(b"content"))
    return path


@pytest.mark.parametrize(
    "path",
    ["{outside}/new", "../outside/new", "deep/../../outside/new", "way/new", "deep/file", "way", "", "."],
)
def test_no_place_is_outside(path: str, inside: Path, outside: Path) -> None:
    with pytest.raises(Misplaced):
        find_place(inside, path.format(outside=outside))
    assert [each.name for each in outside.iterdir()] == ["mine"]


def test_a_place_has_its_folders(inside: Path) -> None:
    assert find_place(inside, "new/folder/file") == inside / "new/folder/file"
    assert (inside / "new" / "folder").is_dir()


@pytest.mark.parametrize("path", ["way/new", "deep/file"])
def test_a_folder_is_not_copied_through_links(path: str, tmp_path: Path, inside: Path, outside: Path) -> None:
    source = tmp_path / "source" / path
    source.parent.mkdir(parents=True)
    source.write_text("theirs")
    with pytest.raises(Misplaced, match="through a link"):
        copy_over(tmp_path / "source", inside)
    assert {each.name: each.read_text() for each in outside.iterdir()} == {"mine": "mine"}


def test_a_folder_is_copied_over_another_with_its_own_links(tmp_path: Path, inside: Path) -> None:
    source = tmp_path / "source"
    (source / "deep").mkdir(parents=True)
    (source / "deep" / "other").symlink_to("/etc/passwd")
    copy_over(source, inside)
    assert (inside / "deep" / "other").readlink() == Path("/etc/passwd")


@pytest.mark.parametrize(
    "entries",
    [
        [("a", DIR, ""), ("way", SYM, "a"), ("way/new", REG, "")],
        [("a", REG, ""), ("way", SYM, "a"), ("way", REG, "")],
        [("a", REG, ""), ("way", SYM, "a"), ("b", LNK, "way")],
    ],
)
def test_nothing_of_an_archive_goes_through_a_link(
    entries: list[tuple[str, bytes, str]], tmp_path: Path
) -> None:
    into = tmp_path / "into"
    into.mkdir()
    with pytest.raises(Misplaced, match="through a link"):
        unpack(pack(tmp_path / "a.tar", *entries), into)


def test_an_ordinary_archive_is_unpacked_with_its_links(tmp_path: Path) -> None:
    into = tmp_path / "into"
    into.mkdir()
    entries = [
        (".", DIR, ""),
        ("./a", DIR, ""),
        ("./a/x", REG, ""),
        ("./way", SYM, "a"),
        ("./way", SYM, "a/x"),
    ]
    unpack(pack(tmp_path / "a.tar", *entries, ("hard", LNK, "./a/x")), into)
    assert ((into / "way").readlink(), (into / "hard").read_bytes()) == (Path("a/x"), b"content")


@pytest.mark.parametrize("name", ["a.zip", "a.tar.gz"])
def test_an_archive_takes_no_more_room_than_it_may(name: str, tmp_path: Path) -> None:
    into, size = tmp_path / "into", 4 << 20
    into.mkdir()
    if name == "a.zip":
        with zipfile.ZipFile(tmp_path / name, "w", zipfile.ZIP_DEFLATED) as zipped:
            zipped.writestr("zeros", bytes(size))
    else:
        with tarfile.open(tmp_path / name, "w:gz") as archive:
            member = tarfile.TarInfo("zeros")
            member.size = size
            archive.addfile(member, io.BytesIO(bytes(size)))
    with pytest.raises(Misplaced, match="takes more than"):
        unpack(tmp_path / name, into, size - 1)
    assert list(into.iterdir()) == []
    unpack(tmp_path / name, into, size)
    assert (into / "zeros").stat().st_size == size
