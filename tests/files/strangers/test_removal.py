import os
from pathlib import Path

import pytest

from labrunner.files.strangers.removal import remove, remove_if_possible, remove_tree

NOBODY = 65534


def test_a_folder_of_empty_folders_is_removed(tmp_path: Path) -> None:
    (tmp_path / "scratch" / "home").mkdir(parents=True)
    (tmp_path / "scratch" / "tmp").mkdir()
    remove_tree(tmp_path / "scratch")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_with_files_at_any_depth_is_removed(tmp_path: Path) -> None:
    (tmp_path / "tree" / "a" / "b").mkdir(parents=True)
    (tmp_path / "tree" / "empty").mkdir()
    (tmp_path / "tree" / "a" / "b" / "file").write_text("x")
    remove_tree(tmp_path / "tree")
    assert list(tmp_path.iterdir()) == []


def test_nothing_there_is_fine(tmp_path: Path) -> None:
    remove_tree(tmp_path / "gone")
    remove(tmp_path / "gone")


def test_a_link_inside_is_removed_and_what_it_points_to_is_not(tmp_path: Path) -> None:
    (tmp_path / "precious" / "empty").mkdir(parents=True)
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree" / "link").symlink_to(tmp_path / "precious")
    remove_tree(tmp_path / "tree")
    assert [path.name for path in tmp_path.iterdir()] == ["precious"]
    assert (tmp_path / "precious" / "empty").is_dir()


def test_a_link_in_the_place_of_a_folder_is_never_followed(tmp_path: Path) -> None:
    (tmp_path / "precious" / "empty").mkdir(parents=True)
    (tmp_path / "scratch").symlink_to(tmp_path / "precious")
    with pytest.raises(OSError, match="symbolic link"):
        remove_tree(tmp_path / "scratch")
    assert (tmp_path / "precious" / "empty").is_dir()


def test_folders_without_any_rights_at_several_depths_are_removed(tmp_path: Path) -> None:
    (tmp_path / "tree" / "a" / "b" / "c").mkdir(parents=True)
    (tmp_path / "tree" / "a" / "b" / "file").write_text("x")
    for path in ("tree/a/b/c", "tree/a/b", "tree/a"):
        (tmp_path / path).chmod(0)
    give_to_nobody_and_remove(tmp_path)
    assert not (tmp_path / "tree").exists()


def test_a_folder_that_may_be_read_but_not_changed_is_removed(tmp_path: Path) -> None:
    (tmp_path / "tree" / "a").mkdir(parents=True)
    (tmp_path / "tree" / "a" / "file").write_text("x")
    for path in ("tree/a", "tree"):
        (tmp_path / path).chmod(0o500)
    give_to_nobody_and_remove(tmp_path)
    assert not (tmp_path / "tree").exists()


def test_a_tree_deeper_than_calls_and_descriptors_go_is_removed(tmp_path: Path) -> None:
    (tmp_path / "tree").mkdir()
    folder = os.open(tmp_path / "tree", os.O_RDONLY)
    for _ in range(3000):
        os.mkdir("d", dir_fd=folder)
        inner = os.open("d", os.O_RDONLY, dir_fd=folder)
        os.close(folder)
        folder = inner
    os.close(folder)
    remove_tree(tmp_path / "tree")
    assert list(tmp_path.iterdir()) == []


def test_what_can_not_be_removed_ends_nothing() -> None:
    remove_if_possible(Path("/proc/self/status"))
    assert Path("/proc/self/status").exists()


def test_whatever_nobody_needs_is_removed_a_file_too_and_of_a_link_nothing_but_itself(
    tmp_path: Path,
) -> None:
    (tmp_path / "precious").mkdir()
    (tmp_path / "file").write_text("x")
    (tmp_path / "link").symlink_to(tmp_path / "precious")
    for name in ("file", "link", "not there"):
        remove_if_possible(tmp_path / name)
    assert [path.name for path in tmp_path.iterdir()] == ["precious"]


def give_to_nobody_and_remove(folder: Path) -> None:
    """Remove `tree` as a plain user: rights do not stop root."""
    if os.geteuid() != 0:
        remove_tree(folder / "tree")
        return
    for root, _, files in os.walk(folder):
        for path in (root, *(f"{root}/{name}" for name in files)):
            os.chown(path, NOBODY, NOBODY)
    if (pid := os.fork()) == 0:
        try:
            os.chdir(folder)
            os.setuid(NOBODY)
            remove_tree(Path("tree"))
        finally:
            os._exit(0)
    os.waitpid(pid, 0)
