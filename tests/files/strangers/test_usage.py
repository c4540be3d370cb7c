import os
from pathlib import Path

import pytest

from labrunner.files.strangers.removal import remove_tree
from labrunner.files.strangers.usage import MAX_DEPTH, TooMany, count, measure
from labrunner.sandbox.processes.keeper import count_disk

MIB = 1 << 20


def fill(path: Path, size: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"x" * size)


def test_counts_what_files_take_on_disk(tmp_path: Path) -> None:
    fill(tmp_path / "a", MIB)
    fill(tmp_path / "d" / "e" / "b", MIB)
    with (tmp_path / "sparse").open("wb") as file:
        file.truncate(1 << 40)
    assert 2 * MIB <= measure([tmp_path]) < 3 * MIB


def test_a_hard_link_counts_once(tmp_path: Path) -> None:
    fill(tmp_path / "a" / "x", MIB)
    (tmp_path / "b").mkdir()
    os.link(tmp_path / "a" / "x", tmp_path / "b" / "x")
    assert measure([tmp_path / "a", tmp_path / "b"]) < 2 * MIB


def test_links_are_never_followed(tmp_path: Path) -> None:
    fill(tmp_path / "outside" / "big", 4 * MIB)
    inside = tmp_path / "inside"
    inside.mkdir()
    (inside / "link").symlink_to(tmp_path / "outside")
    (inside / "file").symlink_to(tmp_path / "outside" / "big")
    assert measure([inside]) < MIB
    (tmp_path / "top").symlink_to(tmp_path / "outside")
    assert measure([tmp_path / "top"]) == 0


def test_what_is_not_there_counts_nothing(tmp_path: Path) -> None:
    assert measure([tmp_path / "nowhere"]) == 0


def test_a_tree_deeper_than_calls_may_go_is_counted_to_its_end(tmp_path: Path) -> None:
    fd = os.open(tmp_path, os.O_RDONLY)
    for level in range(MAX_DEPTH + 2000):
        if level % 500 == 0:
            os.mkdir("beside", dir_fd=fd)
            file = os.open("beside/file", os.O_WRONLY | os.O_CREAT, dir_fd=fd)
            os.write(file, b"x" * MIB)
            os.close(file)
        os.mkdir("d", dir_fd=fd)
        deeper = os.open("d", os.O_RDONLY, dir_fd=fd)
        os.close(fd)
        fd = deeper
    os.close(fd)
    folders = (MAX_DEPTH + 2000 + 5) * 4096
    try:
        assert 5 * MIB <= measure([tmp_path]) <= 5 * MIB + folders
        assert count([tmp_path])[1] == MAX_DEPTH + 2000 + 5 + 5
        with pytest.raises(TooMany):
            measure([tmp_path], MAX_DEPTH + 2000)
    finally:
        remove_tree(tmp_path)


def test_a_walk_can_be_told_to_give_up(tmp_path: Path) -> None:
    for number in range(20):
        (tmp_path / str(number)).touch()
    assert measure([tmp_path], 20) >= 0
    with pytest.raises(TooMany):
        measure([tmp_path], 19)


def test_a_keeper_leaves_a_large_tree_to_the_runner(tmp_path: Path) -> None:
    for number in range(3):
        fill(tmp_path / str(number), MIB)
    found = count_disk([str(tmp_path)], most=3)
    assert found is not None
    assert 3 * MIB <= found[0] < 4 * MIB
    assert found[1] == 3
    fill(tmp_path / "one more", MIB)
    assert count_disk([str(tmp_path)], most=3) is None
