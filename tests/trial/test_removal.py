from pathlib import Path

import pytest

from labrunner.trial.removal import remove, remove_tree


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
