"""Copies of what sandboxes left, whatever names they gave."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from labrunner.files.strangers.copying import copy_tree
from labrunner.files.strangers.sealing import digest_tree


def write(path: Path) -> None:
    path.write_text("the agent's")


def link(path: Path) -> None:
    path.symlink_to("elsewhere")


@pytest.mark.parametrize("leave", [write, link, os.mkfifo, os.mkdir])
@pytest.mark.parametrize("name", [".copying", ".copying-copy"])
def test_no_name_that_an_agent_gives_is_in_the_way_of_a_copy(
    tmp_path: Path, leave: Callable[[Path], None], name: str
) -> None:
    (tmp_path / "kept").mkdir()
    leave(tmp_path / "kept" / name)
    (tmp_path / "kept/answer").write_text("42")

    copy_tree(tmp_path / "kept", tmp_path / "copy")

    assert digest_tree(tmp_path / "copy") == digest_tree(tmp_path / "kept") is not None
    assert sorted(os.listdir(tmp_path)) == ["copy", "kept"]


def test_a_copy_that_was_cut_off_goes_on_and_leaves_nothing_beside_it(tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept/answer").write_text("42")
    (tmp_path / "copy").mkdir()
    (tmp_path / ".copying-copy").write_text("4, and a killed process's rest")

    copy_tree(tmp_path / "kept", tmp_path / "copy")

    assert (tmp_path / "copy/answer").read_text() == "42"
    assert sorted(os.listdir(tmp_path)) == ["copy", "kept"]
